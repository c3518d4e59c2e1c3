"""Keeps trajectories of tasks in a band of difficulty, measured by the pass rate of the task's group."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from schemas.ids import content_id
from schemas.rows import Verdict
from schemas.trajectory import Trajectory
from tasks.curate.base import Choice, Selector
from tasks.curate.passrate import pass_rates
from tasks.operator import Item, Plan, WorkingSet

if TYPE_CHECKING:
    from tasks.context import Context

Share = Annotated[float, Meta(ge=0, le=1)]


class Difficulty(Selector, frozen=True, kw_only=True):
    """Keeps trajectories of tasks in a band of difficulty, measured by the pass rate of the task's group.

    Reasons: too_hard, too_easy, ungraded (fewer than `min_samples` judged). The score is the pass rate.

    The group is all trajectories of the task in this recipe, kept or not, so that it may stand after `verified`.

    min_rate, max_rate: the band, both ends included. min_samples: least number of judged trajectories in the group.
    ungraded: whether a trajectory of a group with fewer stays.
    teacher: count only this teacher's trajectories (difficulty for one model), "" for all.
    """

    min_rate: Share = 0.0
    max_rate: Share = 1.0
    min_samples: int = 1
    ungraded: bool = False
    teacher: str = ""

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """The pass rate is part of the item: when the group grows, the choice is made again."""
        plan = super().plan(inputs, ctx)
        rates = pass_rates(ctx.lake, inputs.trajectories, self.teacher)
        items = []
        for item in plan.items:
            rate = rates.get(item.ref)
            params = {"passed": rate.passed, "judged": rate.judged} if rate else {}
            items.append(Item(id=content_id("graded", item.ref, params), ref=item.ref, params=params))
        return Plan(items=tuple(items), n_seen=plan.n_seen)

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """Inside the band or not."""
        passed, judged = item.params.get("passed", 0), item.params.get("judged", 0)
        evidence = {"passed": passed, "judged": judged}
        if judged < max(1, self.min_samples):
            return Choice(self.ungraded, "ungraded", evidence=evidence)
        rate = passed / judged
        if rate < self.min_rate:
            return Choice(False, "too_hard", rate, evidence)
        if rate > self.max_rate:
            return Choice(False, "too_easy", rate, evidence)
        return Choice(True, "in_band", rate, evidence)
