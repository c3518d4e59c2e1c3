"""A task proves itself before anything is asked of a policy: its gold passes every time, and no cheat passes."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from schemas.errors import RecordError, Unavailable
from schemas.task import Task
from schemas.vocabulary import VerdictKind
from tasks.verify.base import Judgement, verifier_of

if TYPE_CHECKING:
    from tasks.context import Context


_T = TypeVar("_T")


class Proof(NamedTuple):
    """`reason` is ok, no_gold, gold_fails, flaky, bad_spec or cheat_passes:<name>; `evidence` is JSON data."""

    ok: bool
    reason: str
    evidence: dict[str, Any]


def prove(task: Task, ctx: "Context", runs: int = 3) -> Proof:
    """Judges the gold solution `runs` times and each cheat once.

    A gold that passes only sometimes makes the task flaky: it belongs in quarantine, as does every unproven one.
    Raises Unavailable when the surroundings prevent the proof, which says nothing about the task.
    """
    if task.gold is None:
        return Proof(False, "no_gold", {})
    verifier, gold = verifier_of(task, ctx), task.gold
    try:
        golds = _several(lambda run: verifier.rejudge(task, gold, ctx, run), range(runs))
        right = sum(found.kind is VerdictKind.PASS for found in golds)
        if right < runs:
            first = next(found for found in golds if found.kind is not VerdictKind.PASS)
            evidence = {"passed": right, "runs": runs, "kind": first.kind.value, "why": first.reason}
            evidence |= {key: first.evidence[key] for key in ("test", "detail") if key in first.evidence}
            return Proof(False, "flaky" if right else "gold_fails", evidence)
        cheats = {name: text for name, text in verifier.cheats(task).items() if text != gold}
        tried = _several(lambda text: verifier.judge(task, text, ctx), cheats.values())
        for name, found in zip(cheats, tried, strict=True):
            if found.kind is VerdictKind.PASS:
                return Proof(False, f"cheat_passes:{name}", {"runs": runs})
    except RecordError as error:
        return Proof(False, error.reason, {"detail": error.detail})
    return Proof(True, "ok", {"runs": runs, "refused": sorted(cheats)})


def _several(judge: Callable[[_T], Judgement], inputs: Iterable[_T]) -> list[Judgement]:
    """Judges several answers at a time; the first infrastructure error ends the proof."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="prove") as threads:
        found = list(threads.map(judge, inputs))
    for each in found:
        if each.kind is VerdictKind.INFRASTRUCTURE:
            raise Unavailable(each.reason, str(each.evidence.get("detail", "")))
    return found
