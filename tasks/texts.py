"""Changes every text of a trajectory, wherever it stands, and leaves its form as it is."""

import json
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from schemas.ids import canonical_json
from schemas.trajectory import Base, ToolCall

Change = Callable[[str], str]
Whole = TypeVar("Whole", bound=Base)

# What is ours and made by hash, ids of rows and of blobs; a call's id and arguments are looked at apart.
_OURS = frozenset({"id", "task_id", "parents", "trajectory_id", "sha256", "arguments"})
_JSON = frozenset({"extra_json", "raw_json", "tool_sets", "arguments_json"})


def changed(whole: Whole, change: Change, beside: Callable[[str], object] = len) -> Whole:
    """The trajectory, or a part of it, with `change` applied to every text that a source gave.

    That is what was said, thought, called, answered, offered and kept beside the steps, and names, addresses, the
    source's own ids, policy and provenance; only our ids of rows and blobs stay. Where JSON stands it is changed value
    by value, escapes read, and stays JSON; a number in it that changes becomes text. `beside` is shown such JSON as a
    whole, where names stand beside values.
    """
    return _Walk(change, beside).struct(whole)


class _Walk(NamedTuple):
    change: Change
    beside: Callable[[str], object]

    def struct(self, whole: Whole) -> Whole:
        made = {}
        for name in whole.__struct_fields__:
            value = getattr(whole, name)
            new = value if name in _OURS else self.json(value) if name in _JSON else self.any(value)
            if new is not value:
                made[name] = new
        if isinstance(whole, ToolCall):
            made["id"] = self.any(whole.id)
            # The source's writing gives way to the parsed one where that changes.
            made["arguments"] = made.get("arguments_json") or self.json(whole.arguments)
        return msgspec.structs.replace(whole, **made) if made else whole

    def any(self, value: Any) -> Any:
        """Texts, structs and tuples of them; words of fixed vocabularies and numbers as they are."""
        if type(value) is str:
            new = self.change(value)
            return value if new == value else new
        if isinstance(value, Base):
            return self.struct(value)
        if isinstance(value, tuple):
            several = tuple(map(self.any, value))
            return value if all(map(operator.is_, several, value)) else several
        return value

    def json(self, given: Any) -> Any:
        """JSON text (or several) with its texts changed; the very text where nothing changes."""
        if isinstance(given, tuple):
            several = tuple(map(self.json, given))
            return given if all(map(operator.is_, several, given)) else several
        if given is None:
            return None
        try:
            value = json.loads(given, object_pairs_hook=_once)
        except (ValueError, RecursionError):
            return self.any(given)
        self.beside(json.dumps(value, ensure_ascii=False))
        made = self.value(value)
        return given if made == value else canonical_json(made)

    def value(self, value: Any) -> Any:
        """A value of JSON."""
        if isinstance(value, str):
            return self.change(value)
        if isinstance(value, dict):
            return {self.change(key): self.value(child) for key, child in value.items()}
        if isinstance(value, list):
            return [self.value(child) for child in value]
        if isinstance(value, int) and not isinstance(value, bool):
            made = self.change(str(value))
            return value if made == str(value) else made
        return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; ValueError where a key stands twice, since its first value would be gone without being looked at."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice")
    return made
