"""The base of every labeler: it plans the trajectories it has something to say about, and labels their steps.

Labels are rows beside a trajectory, which is never rewritten; exporters turn weights into token weights. A
trajectory that is not eligible is not planned, so the funnel counts it as seen only.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.ids import canonical_json, content_id
from schemas.rows import StepLabel
from schemas.trajectory import Trajectory
from schemas.vocabulary import Kind, Stage
from tasks.operator import Effect, Item, Operator, Outcome, Plan, Result, Unit, WorkingSet, drop, keep, select_ids

if TYPE_CHECKING:
    from tasks.context import Context

# Trajectories held in memory at a time while planning.
_CHUNK = 512


class Labeler(Operator, frozen=True, kw_only=True):
    """Labels steps and calls. A subclass defines `label`, and `eligible` or `wanted` where not every trajectory is."""

    kind: ClassVar[Kind] = Kind.LABELER
    stage: ClassVar[Stage] = Stage.LABEL
    reads: ClassVar[Unit] = "trajectory"
    effect: ClassVar[Effect] = "annotate"

    def eligible(self, trajectory: Trajectory) -> bool:
        """Whether there is something to label, from the trajectory alone."""
        return True

    def wanted(self, trajectories: Sequence[Trajectory], ctx: "Context") -> list[Trajectory]:
        """The eligible ones; override where that hangs on more than the trajectory."""
        return [one for one in trajectories if self.eligible(one)]

    def label(self, trajectory: Trajectory, ctx: "Context") -> list[StepLabel]:
        """The labels of one trajectory; make them with `step_label`."""
        raise NotImplementedError(f"{type(self).__name__} must define label()")

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per eligible trajectory."""
        ids = select_ids(self.reads, inputs)
        items = []
        for start in range(0, len(ids), _CHUNK):
            found = ctx.lake.trajectories(ids[start : start + _CHUNK])
            items += [Item(id=one.id, ref=one.id) for one in self.wanted(found, ctx)]
        return Plan(items=tuple(items), n_seen=len(ids))

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Labels each trajectory; one that gets no label is a drop with the reason `no_label`."""
        rows: list[StepLabel] = []
        outcomes: list[Outcome] = []
        for item, trajectory in zip(items, ctx.lake.trajectories([item.ref for item in items]), strict=True):
            labels = self.label(trajectory, ctx)
            rows += labels
            if labels:
                outcomes.append(keep(item, "labelled", evidence={"labels": len(labels)}))
            else:
                outcomes.append(drop(item, "no_label"))
        return Result(outcomes=tuple(outcomes), rows={"step_labels": rows})

    def step_label(
        self,
        ctx: "Context",
        trajectory: Trajectory,
        step: int,
        reason: str,
        *,
        call_id: str | None = None,
        weight: float | None = None,
        reward: float | None = None,
        evidence: dict[str, Any] | None = None,
    ) -> StepLabel:
        """A label named after this plug-in, under its content id."""
        name = self.plugin_id()
        return StepLabel(
            id=content_id("step_label", self.fingerprint(ctx), trajectory.id, step, call_id, name),
            trajectory_id=trajectory.id,
            step=step,
            call_id=call_id,
            label=name,
            weight=weight,
            reward=reward,
            reason=reason,
            evidence_json=canonical_json(evidence or {}),
            parents=(trajectory.id,),
        )
