"""The base of every refiner: it plans the trajectories it can better, and makes new ones from them.

A refined trajectory is a new one: new content id, the old one among its parents, and no verdict yet, so it is
verified again. One whose replay does not hold is given up: the old trajectory goes on unchanged, and the reason
says why. Trajectories that are not eligible are not planned, so the funnel counts them as seen only.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from schemas.errors import Unavailable
from schemas.ids import with_id
from schemas.trajectory import Trajectory
from schemas.vocabulary import Kind, Stage
from tasks.operator import Effect, Item, Operator, Outcome, Pending, Plan, Result, Unit, WorkingSet, keep, select_ids

if TYPE_CHECKING:
    from tasks.context import Context

# Trajectories held in memory at a time while planning.
_CHUNK = 512


class Refined(NamedTuple):
    """A bettered trajectory (its id and parents are set later), the reason code, and what was changed."""

    trajectory: Trajectory
    reason: str
    evidence: dict[str, Any] = {}


class GivenUp(NamedTuple):
    """Why an eligible trajectory stays as it is."""

    why: str
    evidence: dict[str, Any] = {}


class Refiner(Operator, frozen=True, kw_only=True):
    """Makes new trajectories from old ones. A subclass defines `eligible` and `refine`."""

    kind: ClassVar[Kind] = Kind.REFINER
    stage: ClassVar[Stage] = Stage.REFINE
    reads: ClassVar[Unit] = "trajectory"
    effect: ClassVar[Effect] = "map"
    batch_size: ClassVar[int] = 64

    def eligible(self, trajectory: Trajectory) -> bool:
        """Whether there is something to better, from the trajectory alone."""
        raise NotImplementedError(f"{type(self).__name__} must define eligible()")

    def refine(self, trajectory: Trajectory, ctx: "Context") -> Refined | GivenUp:
        """The bettered trajectory. Raises Unavailable when the surroundings prevent it."""
        raise NotImplementedError(f"{type(self).__name__} must define refine()")

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per eligible trajectory."""
        ids = select_ids(self.reads, inputs)
        items = []
        for start in range(0, len(ids), _CHUNK):
            found = ctx.lake.trajectories(ids[start : start + _CHUNK])
            items += [Item(id=one.id, ref=one.id) for one in found if self.eligible(one)]
        return Plan(items=tuple(items), n_seen=len(ids))

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Refines each trajectory; the outcome's output is the new one, or the old one where it was given up."""
        fingerprint = self.fingerprint(ctx)
        outcomes: list[Outcome] = []
        pending: list[Pending] = []
        trajectories: list[Trajectory] = []
        for item, old in zip(items, ctx.lake.trajectories([item.ref for item in items]), strict=True):
            try:
                made = self.refine(old, ctx)
            except Unavailable as error:
                pending.append(Pending(item_id=item.id, reason=error.reason))
                continue
            outcome, new = self.settled(item, old, made, fingerprint)
            outcomes.append(outcome)
            trajectories += [new] if new is not None else []
        return Result(outcomes=tuple(outcomes), rows={"trajectories": trajectories}, pending=tuple(pending))

    def settled(
        self, item: Item, old: Trajectory, made: Refined | GivenUp, fingerprint: str
    ) -> tuple[Outcome, Trajectory | None]:
        """The outcome, and the new trajectory under its id and parents; None where the old one goes on."""
        if isinstance(made, GivenUp):
            return keep(item, f"unchanged:{made.why}", evidence=made.evidence), None
        parents = (old.task_id, old.id) if old.task_id else (old.id,)
        new = with_id(msgspec.structs.replace(made.trajectory, id="", parents=parents), fingerprint)
        return keep(item, made.reason, evidence=made.evidence, outputs=(new.id,)), new
