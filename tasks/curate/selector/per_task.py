"""Keeps a few trajectories of each task, more of hard ones, so that easy tasks do not crowd them out."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from schemas.ids import content_id
from tasks.curate.base import SetSelector, side_rows
from tasks.curate.facts import facts, task_codes
from tasks.curate.passrate import PassRate, pass_rates
from tasks.curate.standing import KeepPolicy, ranking, standings
from tasks.operator import Item, Outcome, Plan, Result, WorkingSet, drop, keep

if TYPE_CHECKING:
    from tasks.context import Context


class PerTask(SetSelector, frozen=True, kw_only=True):
    """Keeps a few trajectories of each task, more of hard ones, so that easy tasks do not crowd them out.

    The reason is `over_quota`; the evidence the task's quota and pass rate.

    easy: how many of a task that always passes stay. hard: how many of a task that never does; in between the
    quota follows the pass rate and is rounded up. A task nobody judged has the quota `hard`.
    keep: which ones stay: best_verdict, shortest, longest, newest, first (smallest id).
    """

    easy: Annotated[int, Meta(ge=0)] = 4
    hard: Annotated[int, Meta(ge=0)] = 4
    keep: KeepPolicy = "best_verdict"

    @property
    def leans_on_verdicts(self) -> bool:
        """Both quota and order do."""
        return True

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """The pass rate of the whole group, kept or not, is part of the item."""
        plan = super().plan(inputs, ctx)
        rates = pass_rates(ctx.lake, inputs.trajectories)
        items = []
        for item in plan.items:
            rate = rates.get(item.ref, PassRate(0, 0))
            params = {"passed": rate.passed, "judged": rate.judged}
            items.append(Item(id=content_id("graded", item.id, params), ref=item.ref, params=params))
        return Plan(items=tuple(items), n_seen=plan.n_seen)

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """The best of each task up to its quota; trajectories without any task, not even a prompt, are one task."""
        refs = [item.ref for item in items]
        known = standings(ctx.lake, refs, self.keep)
        told = facts(ctx.lake, refs, "whole")
        task = task_codes([known[ref] for ref in refs], told.values["prompt"].tolist()).tolist()
        taken: Counter[int] = Counter()
        outcomes: list[Outcome | None] = [None] * len(items)
        for number in ranking(self.keep, refs, told.values["chars"].tolist(), known).tolist():
            item = items[number]
            quota = self._quota(**item.params)
            evidence = {**item.params, "quota": quota}
            if taken[task[number]] < quota:
                outcomes[number] = keep(item, evidence=evidence)
            else:
                outcomes[number] = drop(item, "over_quota", evidence=evidence)
            taken[task[number]] += 1
        decided = tuple(outcome for outcome in outcomes if outcome is not None)
        return Result(outcomes=decided, rows=side_rows(signatures=told.rows))

    def _quota(self, passed: int, judged: int) -> int:
        rate = passed / judged if judged else 0.0
        # Rounded first, so that 2 + 6 × (1 − 1/3) is 6 and not 7 by a last bit.
        return math.ceil(round(self.hard + (self.easy - self.hard) * rate, 9))
