"""Pass rates of groups: how many of a task's judged trajectories passed."""

from collections.abc import Sequence
from typing import NamedTuple

from warehouse.lake import Lake


class PassRate(NamedTuple):
    """`passed` of `judged` trajectories of a task; infrastructure verdicts judge nothing."""

    passed: int
    judged: int


def pass_rates(lake: Lake, refs: Sequence[str], teacher: str = "") -> dict[str, PassRate]:
    """The pass rate of the group of each trajectory that has a task. teacher: count only this teacher's."""
    groups = lake.sql(
        "select id, task_id, coalesce(policy.teacher, policy.model, '') as teacher from trajectories "
        "where task_id is not null and id in (select id from ids)",
        ids=refs,
    ).to_pylist()
    judged = lake.sql(
        "select trajectory_id, bool_and(kind = 'pass') as passed from verdicts "
        "where kind <> 'infrastructure' and trajectory_id in (select id from ids) group by trajectory_id",
        ids=refs,
    ).to_pylist()
    passed = {row["trajectory_id"]: bool(row["passed"]) for row in judged}
    counts: dict[str, PassRate] = {}
    for row in groups:
        before = counts.setdefault(row["task_id"], PassRate(0, 0))
        if row["id"] in passed and teacher in ("", row["teacher"]):
            counts[row["task_id"]] = PassRate(before.passed + passed[row["id"]], before.judged + 1)
    return {row["id"]: counts[row["task_id"]] for row in groups}
