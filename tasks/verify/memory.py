"""What each run has judged, in memory: a small model says the same thing often, and a trainer asks at every step."""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tasks.context import Context

T = TypeVar("T")
_REMEMBERED = 20_000


class Found(NamedTuple, Generic[T]):
    """A judgement (or why there is none) and the trajectory that it was made for ("": none)."""

    judged: T
    origin: str


class Memory:
    """The judgements of each run by their keys. Safe for threads."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[Context, dict[str, Found[Any]]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def known(self, ctx: "Context", keys: Sequence[str]) -> dict[str, Found[Any]]:
        """What is remembered of these keys."""
        with self._lock:
            mine = self._of.setdefault(ctx, {})
            return {key: mine[key] for key in keys if key in mine}

    def learn(self, ctx: "Context", found: Mapping[str, Found[Any]]) -> None:
        """Remembers more; forgets everything first when it would be too much."""
        with self._lock:
            mine = self._of.setdefault(ctx, {})
            if len(mine) + len(found) > _REMEMBERED:
                mine.clear()
            mine.update(found)


memory = Memory()
