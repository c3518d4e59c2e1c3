"""A task proves itself before anything is asked of a policy: its gold passes every time, and no cheat passes.

How long the gold takes on this machine is measured on the way, and the time limit that follows from it (limit_s = the
greater of the task's limit and `headroom` times the slowest gold run) is part of the evidence.
"""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from schemas.errors import RecordError, Unavailable
from schemas.task import Task
from schemas.vocabulary import VerdictKind
from tasks.verify.base import Judgement, Verifier, verifier_of
from tasks.verify.pace import headroom_of, paced, seconds_of, timed
from tasks.verify.trouble import own_trouble

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
    try:
        with own_trouble(task, ctx):
            return _tried(verifier_of(task, ctx), task, task.gold, ctx, runs)
    except RecordError as error:
        return Proof(False, error.reason, {"detail": error.detail})


def _tried(verifier: Verifier, task: Task, gold: str, ctx: "Context", runs: int) -> Proof:
    timed_golds = _gold_runs(verifier, task, gold, ctx, runs)
    golds = [found for found, _ in timed_golds]
    right = sum(found.kind is VerdictKind.PASS for found in golds)
    if right < runs:
        first = next(found for found in golds if found.kind is not VerdictKind.PASS)
        evidence: dict[str, Any] = {"passed": right, "runs": runs, "kind": first.kind.value, "why": first.reason}
        evidence |= {key: first.evidence[key] for key in ("test", "detail") if key in first.evidence}
        return Proof(False, "flaky" if right else "gold_fails", evidence)
    cheats = {name: text for name, text in verifier.cheats(task).items() if text != gold}
    tried = _several(lambda text: verifier.judge(task, text, ctx), cheats.values())
    for name, found in zip(cheats, tried, strict=True):
        if found.kind is VerdictKind.PASS:
            return Proof(False, f"cheat_passes:{name}", {"runs": runs})
    evidence = {"runs": runs, "refused": sorted(cheats)}
    if headroom_of(verifier):
        evidence |= paced(verifier, task, max(seconds for _, seconds in timed_golds)).told()
    return Proof(True, "ok", evidence)


def _gold_runs(verifier: Verifier, task: Task, gold: str, ctx: "Context", runs: int) -> list[tuple[Judgement, float]]:
    """Each run of the gold solution and its seconds; one that ran out of time on a slow machine is given more."""

    def one(run: int) -> tuple[Judgement, float]:
        began = time.monotonic()
        found = verifier.rejudge(task, gold, ctx, run)
        if found.kind is VerdictKind.TIMEOUT and headroom_of(verifier):
            return timed(verifier, task, ctx, run)
        return found, seconds_of(found, time.monotonic() - began)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="prove") as threads:
        found = list(threads.map(one, range(runs)))
    _refuse_trouble(each for each, _ in found)
    return found


def _several(judge: Callable[[_T], Judgement], inputs: Iterable[_T]) -> list[Judgement]:
    """Judges several answers at a time; the first infrastructure error ends the proof."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="prove") as threads:
        found = list(threads.map(judge, inputs))
    _refuse_trouble(found)
    return found


def _refuse_trouble(found: Iterable[Judgement]) -> None:
    for each in found:
        if each.kind is VerdictKind.INFRASTRUCTURE:
            raise Unavailable(each.reason, str(each.evidence.get("detail", "")))
