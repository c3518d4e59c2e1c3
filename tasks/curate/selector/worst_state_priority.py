"""Keeps, of each task, the trajectories that went on from the worst states."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tasks.curate.base import Choice, Chosen, SetSelector, side_rows
from tasks.curate.facts import facts, task_codes
from tasks.curate.features import stacked
from tasks.curate.standing import ranking, standings
from tasks.curate.states import Measure, badness, states

if TYPE_CHECKING:
    from tasks.context import Context


class WorstStatePriority(SetSelector, frozen=True, kw_only=True):
    """Keeps, of each task, the trajectories that went on from the worst states.

    The reason is `better_state`; the score tells how bad the worst state was (higher is worse), and the evidence its
    rank among those of the task. A task's trajectories often differ little but for where they were in trouble: those
    that got out of the most are the ones to learn from (worst-state-prioritized sampling, after LLM4Cov).

    per_task: how many of each task stay.
    measure: `failures` counts failed calls in a row before one that succeeded; `reward` takes the lowest reward that
    a step states before the agent's last one. Context copied from another trajectory counts: it is where this one
    went on from. Equal states, and trajectories without any, are ranked by verdict, then the shorter first.
    """

    per_task: Annotated[int, Meta(ge=1)] = 1
    measure: Measure = "failures"

    @property
    def leans_on_verdicts(self) -> bool:
        """For equal states."""
        return True

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """The worst states of each task first; trajectories without any task, not even a prompt, are one task."""
        known = standings(ctx.lake, refs)
        told, found = facts(ctx.lake, refs, "whole"), states(ctx.lake, refs)
        task = task_codes([known[ref] for ref in refs], told.values["prompt"].tolist()).tolist()
        bad = badness(found, self.measure).tolist()
        best_first = ranking("best_verdict", refs, told.values["chars"].tolist(), known).tolist()
        taken: Counter[int] = Counter()
        choices = [Choice(True)] * len(refs)
        # A stable sort: what is equally bad stays in the order of the verdicts.
        for number in sorted(best_first, key=lambda one: -bad[one]):
            taken[task[number]] += 1
            rank = taken[task[number]]
            kept = rank <= self.per_task
            score = bad[number] if bad[number] > float("-inf") else None
            evidence = {"rank": rank, "stay": self.per_task}
            choices[number] = Choice(kept, "ok" if kept else "better_state", score, evidence)
        return Chosen(choices, side_rows(signatures=stacked([told.rows, found.rows])))
