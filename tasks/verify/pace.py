"""Time limits that follow the machine: limit = max(the task's own, headroom x the slowest gold run here).

A limit that fits a fast machine halves the score on a slow one. So a candidate that ran out of time is compared with
the gold solution, run here and now, before anybody calls it too slow.
"""

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from schemas.errors import Unavailable
from schemas.ids import canonical_json, digest
from schemas.task import Task
from schemas.vocabulary import VerdictKind
from tasks.bounds import BOUNDS
from tasks.verify.base import Judgement, Verifier

if TYPE_CHECKING:
    from tasks.context import Context

V = TypeVar("V", bound=Verifier)

# So many times the limits a gold solution may take to be measured at all.
ROOM = 20.0
_LIMITS = ("timeout_s", "cpu_s")
_MOST = 4096
_known: dict[str, "Pace"] = {}
_lock = threading.Lock()


class Pace(NamedTuple):
    """How long the gold solution took here (seconds, None: it did not pass) and the time limit that follows."""

    gold_s: float | None
    limit_s: float
    scale: float

    def told(self) -> dict[str, Any]:
        """As evidence."""
        return {"gold_s": self.gold_s and round(self.gold_s, 3), "limit_s": round(self.limit_s, 3)}


def floor_of(verifier: Verifier, task: Task) -> float:
    """The wall-clock limit that holds without calibration: the task's own, or else the verifier's option, seconds."""
    own = msgspec.json.decode(task.verifier.spec_json).get("timeout_s")
    return float(own or getattr(verifier, "timeout_s", 0.0))


def headroom_of(verifier: Verifier) -> float:
    """How many times the gold solution's time a candidate may take; 0 where limits are never raised."""
    return float(getattr(verifier, "headroom", 0.0))


def paced(verifier: Verifier, task: Task, gold_s: float | None) -> Pace:
    """The pace that follows from the slowest gold run."""
    floor = floor_of(verifier, task)
    limit = max(floor, headroom_of(verifier) * (gold_s or 0.0))
    return Pace(gold_s, limit, limit / floor if floor else 1.0)


def pace_of(verifier: Verifier, task: Task, ctx: "Context") -> Pace:
    """Runs the gold solution once, with room, and remembers its pace for this process."""
    known = known_pace(verifier, task)
    if known is not None:
        return known
    found, seconds = timed(verifier, task, ctx)
    pace = paced(verifier, task, seconds if found.kind is VerdictKind.PASS else None)
    with _lock:
        if len(_known) >= _MOST:
            _known.clear()
        # Of two that measured at once the first counts for both: one task has one limit here.
        return _known.setdefault(_key(verifier, task), pace)


def known_pace(verifier: Verifier, task: Task) -> Pace | None:
    """The pace that this process has measured; None where it has not."""
    with _lock:
        return _known.get(_key(verifier, task))


def _key(verifier: Verifier, task: Task) -> str:
    return digest(canonical_json([verifier.identity(), task.verifier.spec_json, task.gold]))


def timed(verifier: Verifier, task: Task, ctx: "Context", run: int = 0) -> tuple[Judgement, float]:
    """The judgement of the gold solution with room, and its time in seconds: its slowest test, where that is known."""
    slower, same = stretched(verifier, task, ROOM)
    began = time.monotonic()
    found = slower.rejudge(same, task.gold or "", ctx, run)
    if found.kind is VerdictKind.INFRASTRUCTURE:
        raise Unavailable(found.reason, str(found.evidence.get("detail", "")))
    return found, seconds_of(found, time.monotonic() - began)


def seconds_of(found: Judgement, wall_s: float) -> float:
    """The slowest part of a judgement as its evidence tells, or else how long the whole took."""
    return float(found.evidence.get("slowest_s", wall_s))


def stretched(verifier: V, task: Task, scale: float) -> tuple[V, Task]:
    """The verifier and the task with `scale` times their time limits."""
    options = {name: getattr(verifier, name) * scale for name in _LIMITS if hasattr(verifier, name)}
    spec = msgspec.json.decode(task.verifier.spec_json)
    spec |= {name: min(spec[name] * scale, BOUNDS[name][1]) for name in _LIMITS if spec.get(name)}
    named = msgspec.structs.replace(task.verifier, spec_json=canonical_json(spec))
    return msgspec.structs.replace(verifier, **options), msgspec.structs.replace(task, verifier=named)
