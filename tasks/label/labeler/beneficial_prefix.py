"""The beginning of a failed attempt that demonstrably can lead to success.

    [[label]]
    use = "beneficial_prefix"

After Exploring Expert Failures (EEF): a prefix of a failed trajectory is beneficial when going on from it solves
the task. Here the proof is another rollout of the same task that shares the prefix, step by step and observation by
observation, and passed its verifier: a sample that branched off later, or one that was branched on purpose.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from schemas.rows import StepLabel
from schemas.trajectory import Trajectory
from schemas.vocabulary import Scope, Source
from tasks.judged import judged
from tasks.label.base import Labeler
from tasks.operator import Item, Outcome, Plan, Result, WorkingSet, drop, keep, select_ids
from tasks.pair.divergence import first_difference

if TYPE_CHECKING:
    from tasks.context import Context


class BeneficialPrefix(Labeler, frozen=True, kw_only=True):
    """Weight 1 on the agent steps that a failed trajectory shares with a passed one, 0 on those after.

    min_steps: how many agent steps must be shared.
    """

    scope: ClassVar[Scope] = Scope.GROUP

    min_steps: int = 1

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """Every judged trajectory: the passed ones are what the failed ones of their task are held against."""
        ids = select_ids(self.reads, inputs)
        items = [Item(id=one.trajectory_id, ref=one.trajectory_id, group=one.task_id) for one in judged(ids, ctx)]
        return Plan(items=tuple(items), n_seen=len(ids))

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Labels each failed trajectory; drops `passed` ones and those with `no_shared_prefix`."""
        groups: dict[str, list[Item]] = {}
        for item in items:
            groups.setdefault(item.group, []).append(item)
        rows: list[StepLabel] = []
        outcomes: list[Outcome] = []
        for group in groups.values():
            ids = sorted(item.ref for item in group)
            passes = {one.trajectory_id: one.passed for one in judged(ids, ctx)}
            known = {one.id: one for one in ctx.lake.trajectories(ids)}
            good = [known[ref] for ref in ids if passes[ref]]
            for item in group:
                if passes[item.ref]:
                    outcomes.append(drop(item, "passed"))
                    continue
                end, witness = self.prefix(known[item.ref], good)
                if witness is None:
                    outcomes.append(drop(item, "no_shared_prefix", evidence={"passed": len(good)}))
                    continue
                rows += self._labels(known[item.ref], end, witness, ctx)
                outcomes.append(keep(item, "labelled", evidence={"until": end, "shared_with": witness}))
        return Result(outcomes=tuple(outcomes), rows={"step_labels": rows})

    def prefix(self, failed: Trajectory, good: Sequence[Trajectory]) -> tuple[int, str | None]:
        """Where the longest prefix shared with a passed trajectory ends, and that trajectory's id; None without one."""
        end, witness = 0, None
        for other in good:
            parting = first_difference(failed, other).step
            shared = sum(step.source is Source.AGENT for step in failed.steps[:parting])
            if shared >= self.min_steps and parting > end:
                end, witness = parting, other.id
        return end, witness

    def _labels(self, trajectory: Trajectory, end: int, witness: str, ctx: "Context") -> list[StepLabel]:
        return [
            self.step_label(
                ctx,
                trajectory,
                index,
                "beneficial" if index < end else "after_the_prefix",
                weight=1.0 if index < end else 0.0,
                evidence={"shared_with": witness},
            )
            for index, step in enumerate(trajectory.steps)
            if step.source is Source.AGENT
        ]
