"""The base of every pairer that works within a task's group: members in, rows of another grain out.

The unit is the judged trajectory: each one ends in a pair or is dropped with the reason why not. A decision about
a member depends on its whole group, so it is made again when the group grows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from schemas.rows import Pair
from schemas.trajectory import Trajectory
from schemas.vocabulary import Kind, Scope, Stage
from tasks.judged import Judged, judged
from tasks.operator import Effect, Item, Operator, Outcome, Plan, Result, Unit, WorkingSet, drop, keep, select_ids

if TYPE_CHECKING:
    from tasks.context import Context


class Member(NamedTuple):
    """A judged trajectory of a group and whether it passed."""

    trajectory: Trajectory
    passed: bool


class Unpaired(NamedTuple):
    """Why a member is in no pair."""

    reason: str
    evidence: dict[str, Any] = {}


class Pairer(Operator, frozen=True, kw_only=True):
    """Makes pairs within groups of one task. A subclass defines `pair_group`.

    trust_inside: also count verdicts reached beside the candidate's code. trust_model: also count verdicts that are a
    model's opinion. Both can be talked into a pass, and what is preferred is learned.
    """

    kind: ClassVar[Kind] = Kind.PAIRER
    stage: ClassVar[Stage] = Stage.PAIR
    scope: ClassVar[Scope] = Scope.GROUP
    reads: ClassVar[Unit] = "trajectory"
    effect: ClassVar[Effect] = "add"
    trust_inside: bool = False
    trust_model: bool = False

    def pair_group(
        self, task_id: str, members: Sequence[Member], fingerprint: str
    ) -> tuple[list[Pair], dict[str, Unpaired]]:
        """The pairs of a group (members sorted by id), and a reason for every member that is in none, by id.

        A pair's parents are the ids of its two members.
        """
        raise NotImplementedError(f"{type(self).__name__} must define pair_group()")

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per trajectory that has a task and a judgement."""
        ids = select_ids(self.reads, inputs)
        items = [Item(id=one.trajectory_id, ref=one.trajectory_id, group=one.task_id) for one in self._judged(ids, ctx)]
        return Plan(items=tuple(items), n_seen=len(ids))

    def _judged(self, ids: Sequence[str], ctx: "Context") -> list[Judged]:
        return judged(ids, ctx, inside=self.trust_inside, model=self.trust_model)

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Pairs each group; a member's outputs are the pairs that it is in."""
        fingerprint = self.fingerprint(ctx)
        pairs: list[Pair] = []
        outcomes: list[Outcome] = []
        groups: dict[str, list[Item]] = {}
        for item in items:
            groups.setdefault(item.group, []).append(item)
        for task_id, group in groups.items():
            by_id = {item.ref: item for item in group}
            ids = sorted(by_id)
            passes = {one.trajectory_id: one.passed for one in self._judged(ids, ctx)}
            members = [Member(one, passes[one.id]) for one in ctx.lake.trajectories(ids)]
            made, unpaired = self.pair_group(task_id, members, fingerprint)
            pairs += made
            for ref, item in by_id.items():
                own = tuple(pair.id for pair in made if ref in pair.parents)
                if own:
                    outcomes.append(keep(item, "paired", outputs=own))
                else:
                    outcomes.append(drop(item, unpaired[ref].reason, evidence=unpaired[ref].evidence))
        return Result(outcomes=tuple(outcomes), rows={"pairs": pairs})
