"""What selectors need to know of a trajectory without reading it: task, teacher, verdicts; and what to keep.

Everything here is one query over the set, so that a refresh does not decode the trajectories it already knows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.vocabulary import NO_JUDGEMENT, VerdictKind
from warehouse.lake import Lake

KeepPolicy = Literal["best_verdict", "shortest", "longest", "first", "newest"]
# How trajectories of one task compare: like all others; not with those of other teachers; not at all.
SameTask = Literal["compare", "spare_teachers", "spare"]


class Standing(NamedTuple):
    """`passed`: 1 with a passing verdict, 0 without any verdict, -1 with failing ones only.

    at: the last time that a step names, as text; "" unless it was asked for.
    """

    task_id: str | None
    teacher: str
    passed: int = 0
    reward: float = 0.0
    at: str = ""


def standings(lake: Lake, refs: Sequence[str], policy: KeepPolicy | None = None) -> dict[str, Standing]:
    """The standing of each trajectory, with its time where the policy is `newest`.

    The teacher is the policy's, else its model, else the source's data set.
    """
    # The steps are the bulk of a row: they are read only for the policy that needs their times.
    at = "list_max(list_transform(steps, lambda s: s.timestamp))" if policy == "newest" else "null"
    rows = lake.sql(
        "select id, task_id, coalesce(policy.teacher, policy.model, provenance.dataset, '') as teacher, "  # noqa: S608
        f"coalesce({at}, '') as at from trajectories where id in (select id from ids)",
        ids=refs,
    ).to_pylist()
    passed: dict[str, int] = {}
    reward: dict[str, float] = {}
    for row in _verdicts(lake, refs):
        ref = row["trajectory_id"]
        if row["kind"] in NO_JUDGEMENT:
            continue
        good = row["kind"] == VerdictKind.PASS.value
        passed[ref] = max(passed.get(ref, -1), 1 if good else -1)
        reward[ref] = max(reward.get(ref, 0.0), row["reward"] or 0.0)
    return {
        row["id"]: Standing(
            row["task_id"], row["teacher"], passed.get(row["id"], 0), reward.get(row["id"], 0.0), row["at"]
        )
        for row in rows
    }


def verdict_ids(lake: Lake, refs: Sequence[str]) -> dict[str, list[str]]:
    """The sorted verdict ids of each trajectory that has any."""
    found: dict[str, set[str]] = {}
    for row in _verdicts(lake, refs):
        found.setdefault(row["trajectory_id"], set()).add(row["id"])
    return {ref: sorted(ids) for ref, ids in found.items()}


def _verdicts(lake: Lake, refs: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lake.sql(
        "select id, trajectory_id, kind, reward from verdicts where trajectory_id in (select id from ids)", ids=refs
    ).to_pylist()
    return rows


def ranking(
    policy: KeepPolicy, refs: Sequence[str], lengths: Sequence[int], known: Mapping[str, Standing]
) -> NDArray[np.int64]:
    """The numbers of `refs`, the one most worth keeping first; ties fall to the smaller id.

    best_verdict: passed before unverified before failed, then the higher reward, then the shorter text. newest: by
    the last time that a step names (see `standings`), those without one last.
    """
    if policy == "newest":
        by_id = sorted(range(len(refs)), key=refs.__getitem__)
        return np.array(sorted(by_id, key=lambda i: known[refs[i]].at, reverse=True), np.int64)

    def key(i: int) -> tuple[float, float, int, str]:
        ref, length = refs[i], lengths[i]
        if policy == "first":
            return 0, 0, 0, ref
        if policy == "shortest":
            return 0, 0, length, ref
        if policy == "longest":
            return 0, 0, -length, ref
        return -known[ref].passed, -known[ref].reward, length, ref

    return np.array(sorted(range(len(refs)), key=key), np.int64)


def apart(same: bool, other_teacher: bool, same_task: SameTask, across_tasks: bool) -> bool:
    """Whether two trajectories are no duplicates however similar. same: whether they are of one task."""
    if not same:
        return not across_tasks
    return same_task == "spare" or (same_task == "spare_teachers" and other_teacher)


def codes(values: Sequence[str]) -> NDArray[np.int64]:
    """A number for each distinct value; the empty one is -1."""
    numbers = {value: number for number, value in enumerate(sorted(set(values) - {""}))}
    return np.array([numbers.get(value, -1) for value in values], np.int64)
