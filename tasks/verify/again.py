"""Verifies recorded verdicts again: a sample is judged anew, past everything remembered, and compared.

A disagreement is written into the ledger (operator `verify_again`, reason `disagreement`), so that `why` shows it, and
what was remembered of that answer is forgotten. Recorded verdicts stay as they are: rows are never rewritten.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from schemas.errors import GristmillError, RecordError, Unavailable
from schemas.ids import canonical_json, content_id
from schemas.recipe import Recipe
from schemas.rows import Ruling
from schemas.task import Task
from schemas.trajectory import Base, Trajectory
from schemas.vocabulary import Decision, Stage, Trust, VerdictKind
from tasks.context import Context
from tasks.recipe import entries, operator_of
from tasks.verify.base import Judgement, Verifier
from tasks.verify.trouble import own_trouble
from warehouse.lake import Lake, Stamp

OPERATOR = "verify_again"

# agree, disagree; the others were not compared: the surroundings failed, the verdict is a model's opinion (asking
# again would give the recorded answer), the judgements disagreed already when they were made, its task or specification
# cannot be used, or the verifier that gave it is of another version or its recipe is not in the lake.
How = Literal["agree", "disagree", "unavailable", "model", "disputed", "unusable", "other_version"]


class Check(Base, frozen=True, kw_only=True):
    """One recorded verdict and what judging again said (None where it was not judged)."""

    verdict_id: str
    trajectory_id: str
    verifier: str
    kind: str
    reward: float | None
    how: How
    kind_again: str | None = None
    reward_again: float | None = None
    reason: str = ""
    reason_again: str = ""


class Line(Base, frozen=True, kw_only=True):
    """How the checks of one verifier and recorded kind ended."""

    verifier: str
    kind: str
    n: int
    agree: int
    disagree: int
    not_compared: dict[str, int]


class _Maker(NamedTuple):
    """Who gave verdicts with one fingerprint: the operator, in the context of its recipe."""

    verifier: Verifier
    ctx: Context


def again(lake: Lake, sample: float | None, seed: int, run_id: str) -> list[Check]:
    """Judges a sample of the lake's verdicts anew and records the disagreements.

    sample: a number of verdicts, or below 1 the share of all; None for all. The same seed takes the same sample.
    """
    rows = _sampled(lake, sample, seed)
    makers = _makers(lake, {row["fingerprint"] for row in rows}, run_id)
    checks: list[Check] = []
    try:
        for fingerprint in sorted({row["fingerprint"] for row in rows}):
            part = [row for row in rows if row["fingerprint"] == fingerprint]
            checks += _checked(lake, part, makers.get(fingerprint))
    finally:
        for ctx in {id(maker.ctx): maker.ctx for maker in makers.values()}.values():
            ctx.close()
    _record(lake, checks, run_id)
    return sorted(checks, key=lambda check: (check.verifier, check.kind, check.verdict_id))


def lines(checks: Iterable[Check]) -> list[Line]:
    """The counts per verifier and recorded kind."""
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.verifier, check.kind), []).append(check)
    found = []
    for (verifier, kind), part in sorted(groups.items()):
        hows = [check.how for check in part]
        rest = {str(how): hows.count(how) for how in sorted(set(hows) - {"agree", "disagree"})}
        agree, disagree = hows.count("agree"), hows.count("disagree")
        found.append(Line(verifier=verifier, kind=kind, n=len(part), agree=agree, disagree=disagree, not_compared=rest))
    return found


def _sampled(lake: Lake, sample: float | None, seed: int) -> list[dict[str, Any]]:
    """The sampled verdicts: the smallest hashes of seed and id, so that a larger sample holds the smaller one."""
    total = lake.sql("select count(distinct id) as n from verdicts")["n"][0].as_py()
    most = total if sample is None else math.ceil(sample * total) if sample < 1 else int(sample)
    rows: list[dict[str, Any]] = lake.sql(
        "select distinct on (id) id, fingerprint, trajectory_id, verifier, kind, reward, trust, "
        "json_extract_string(evidence_json, '$.reason') as reason from verdicts "
        "order by md5(concat(?, '/', id)), id limit ?",
        params=[str(seed), most],
    ).to_pylist()
    return rows


def _makers(lake: Lake, wanted: set[str], run_id: str) -> dict[str, _Maker]:
    """The operators of the lake's recipes by fingerprint, the newest recipe first."""
    rows = lake.sql(
        "select recipe_json, json_extract_string(any_value(summary_json), '$.folder') as folder, "
        "max(created_at) as newest from runs where recipe_json <> '{}' group by recipe_json order by newest desc"
    ).to_pylist()
    found: dict[str, _Maker] = {}
    for row in rows:
        if wanted <= found.keys():
            break
        try:
            recipe = msgspec.convert(json.loads(row["recipe_json"]), Recipe)
        except msgspec.ValidationError:
            continue
        ctx = Context(recipe, lake, run_id, Path(row["folder"] or "."), Path())
        used = False
        for index in range(len(entries(recipe, Stage.VERIFY))):
            try:
                operator = operator_of(recipe, Stage.VERIFY, index)
                fingerprint = operator.fingerprint(ctx)
            except GristmillError:
                # A recipe of an older version, or with a plug-in that is no longer installed.
                continue
            if isinstance(operator, Verifier) and fingerprint in wanted and fingerprint not in found:
                found[fingerprint] = _Maker(operator, ctx)
                used = True
        if not used:
            ctx.close()
    return found


def _checked(lake: Lake, rows: Sequence[dict[str, Any]], maker: _Maker | None) -> Iterator[Check]:
    if maker is None:
        yield from (_check(row, "other_version") for row in rows)
        return
    apart: dict[str, How] = {row["id"]: "disputed" for row in rows if row["kind"] == VerdictKind.DISPUTED.value}
    apart |= {row["id"]: "model" for row in rows if row["trust"] == Trust.MODEL.value}
    yield from (_check(row, apart[row["id"]]) for row in rows if row["id"] in apart)
    todo = [row for row in rows if row["id"] not in apart]
    trajectories = {each.id: each for each in lake.trajectories([row["trajectory_id"] for row in todo])}
    known = {each.task_id for each in trajectories.values() if each.task_id}
    tasks = {task.id: task for task in lake.tasks(sorted(known))}

    def one(row: dict[str, Any]) -> Check:
        trajectory = trajectories[row["trajectory_id"]]
        return _judged(row, maker, tasks.get(trajectory.task_id or ""), trajectory)

    with ThreadPoolExecutor(maker.verifier.workers(), thread_name_prefix="verify-again") as pool:
        yield from pool.map(one, todo)


def _judged(row: dict[str, Any], maker: _Maker, task: Task | None, trajectory: Trajectory) -> Check:
    if task is None:
        return _check(row, "unusable")
    try:
        with own_trouble(task, maker.ctx):
            text = maker.verifier.answer(task, trajectory)
            found = maker.verifier.anew(task, text, maker.ctx)
    except RecordError as error:
        return _check(row, "unusable", reason_again=error.reason)
    except Unavailable as error:
        return _check(row, "unavailable", reason_again=error.reason)
    if found.kind is VerdictKind.INFRASTRUCTURE:
        return _check(row, "unavailable", reason_again=found.reason)
    same = found.kind.value == row["kind"] and _same_reward(row["reward"], found.reward)
    if not same:
        maker.verifier.forget(task, text, maker.ctx)
    return _compared(row, "agree" if same else "disagree", found)


def _same_reward(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else math.isclose(one, other, abs_tol=1e-9)


def _compared(row: dict[str, Any], how: How, found: Judgement) -> Check:
    return _check(row, how, kind_again=found.kind.value, reward_again=found.reward, reason_again=found.reason)


def _check(row: dict[str, Any], how: How, **more: Any) -> Check:
    return Check(
        verdict_id=row["id"], trajectory_id=row["trajectory_id"], verifier=row["verifier"], kind=row["kind"],
        reward=row["reward"], reason=row["reason"] or "", how=how, **more,
    )  # fmt: skip


def _record(lake: Lake, checks: Sequence[Check], run_id: str) -> None:
    """Writes each disagreement once: the same one found again adds no row."""
    rulings = [
        Ruling(
            id=content_id("again", check.verdict_id, check.kind_again, check.reward_again),
            item_id=check.verdict_id,
            stage=Stage.VERIFY.value,
            decision=Decision.DROP,
            reason="disagreement",
            score=check.reward_again,
            evidence_json=canonical_json(
                {
                    "verifier": check.verifier,
                    "recorded": {"kind": check.kind, "reward": check.reward, "reason": check.reason},
                    "again": {"kind": check.kind_again, "reward": check.reward_again, "reason": check.reason_again},
                }
            ),
            parents=(check.trajectory_id,),
        )
        for check in checks
        if check.how == "disagree"
    ]
    lake.append(Stamp(run_id, OPERATOR, content_id("operator", OPERATOR)), {"decisions": rulings})
