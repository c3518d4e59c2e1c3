"""What all selectors have in common: what they read, and how a choice becomes an outcome.

A selector looks at kept trajectories one by one (`Selector.judge`) or at the whole set (`SetSelector.choose`).
Choices depend on ids and content only, never on order or time, so that a set decided after ten refreshes is
decided as from scratch. A choice that leans on verdicts has the verdicts in its done-key: a new verdict opens it
again.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from schemas.errors import RecordError
from schemas.ids import content_id
from schemas.rows import DeadLetter, Verdict
from schemas.trajectory import Trajectory
from schemas.vocabulary import Kind, Scope, Stage
from tasks.curate.standing import verdict_ids
from tasks.operator import Effect, Item, Operator, Outcome, Plan, Result, Unit, WorkingSet, dead, drop, keep

if TYPE_CHECKING:
    from tasks.context import Context


class Choice(NamedTuple):
    """Keep or drop, why, and what shows it: `evidence` is JSON data, for a drop never empty."""

    keep: bool
    reason: str = "ok"
    score: float | None = None
    evidence: Mapping[str, Any] = {}

    def outcome(self, item: Item) -> Outcome:
        """The outcome of `item`."""
        make = keep if self.keep else drop
        return make(item, self.reason, score=self.score, evidence=dict(self.evidence))


KEEP = Choice(True)


class Chosen(NamedTuple):
    """One choice per id, in the order of the ids, and rows for side tables (signatures, embeddings)."""

    choices: Sequence[Choice]
    rows: Mapping[str, Sequence[Any]] = {}


def side_rows(**tables: Any) -> dict[str, Sequence[Any]]:
    """Rows for side tables, without the tables that have none."""
    return {table: rows for table, rows in tables.items() if rows is not None}


class Selector(Operator, frozen=True, kw_only=True):
    """Decides about each kept trajectory on its own.

    bars_everywhere: a dropped trajectory is barred from RL groups and pairs too (contamination, licence), not only
    from the kept set.
    resamples: the evidence of a kept trajectory says as `times` how often an exporter writes its rows.
    """

    kind: ClassVar[Kind] = Kind.SELECTOR
    stage: ClassVar[Stage] = Stage.CURATE
    reads: ClassVar[Unit] = "kept"
    effect: ClassVar[Effect] = "filter"
    bars_everywhere: ClassVar[bool] = False
    resamples: ClassVar[bool] = False

    @property
    def leans_on_verdicts(self) -> bool:
        """Whether a choice depends on verdicts."""
        return False

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per kept trajectory; where choices lean on verdicts, a new verdict makes a new item."""
        plan = super().plan(inputs, ctx)
        if not self.leans_on_verdicts:
            return plan
        known = verdict_ids(ctx.lake, [item.ref for item in plan.items])
        items = tuple(
            Item(id=content_id("judged", item.ref, known[item.ref]), ref=item.ref) if item.ref in known else item
            for item in plan.items
        )
        return Plan(items=items, n_seen=plan.n_seen)

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """The choice for one trajectory; `verdicts` is empty unless the selector leans on them."""
        raise NotImplementedError(f"{type(self).__name__} must define judge() or run()")

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Judges every item; a trajectory that cannot be judged is a dead letter."""
        refs = [item.ref for item in items]
        verdicts = ctx.lake.verdicts(refs) if self.leans_on_verdicts else {}
        outcomes: list[Outcome] = []
        letters: list[DeadLetter] = []
        for item, trajectory in zip(items, ctx.lake.trajectories(refs), strict=True):
            try:
                outcomes.append(self.judge(trajectory, verdicts.get(item.ref, []), item, ctx).outcome(item))
            except RecordError as error:
                letters.append(dead(item, self.stage, error.reason, error.detail))
        return Result(outcomes=tuple(outcomes), dead=tuple(letters))


class SetSelector(Selector, frozen=True, kw_only=True):
    """Decides about the whole kept set at once."""

    scope: ClassVar[Scope] = Scope.SET

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """The choices for all of the set, in the order of `refs`; they may not depend on that order."""
        raise NotImplementedError(f"{type(self).__name__} must define choose()")

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Chooses for the set."""
        chosen = self.choose([item.ref for item in items], ctx)
        outcomes = tuple(choice.outcome(item) for choice, item in zip(chosen.choices, items, strict=True))
        return Result(outcomes=outcomes, rows=chosen.rows)
