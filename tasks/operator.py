"""What every plug-in that decides about items has in common: plan the items, run a batch of them.

An operator is one frozen class whose fields are its options. `plan` says which work items it will decide
about; `run` decides a batch of them. Everything else (done-keys, leases, the ledger, counts, dead letters)
is the stage runner's work in `tasks.stage`, the same for every operator.

For each planned item `run` must account exactly once: an Outcome (keep or drop, with a reason), a DeadLetter,
or a Pending. The runner refuses a batch in which an item is missing or counted twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from schemas.ids import content_id
from schemas.rows import DeadLetter
from schemas.trajectory import Base
from schemas.vocabulary import Decision, Scope, Stage
from tasks.plugin import Plugin

if TYPE_CHECKING:
    from tasks.context import Context

Effect = Literal["add", "annotate", "map", "filter"]
Unit = Literal["task", "trajectory", "kept", "pair", "record"]


class WorkingSet(Base, frozen=True, kw_only=True):
    """The ids that flow from stage to stage within one recipe.

    `barred` are trajectories that a selector with `bars_everywhere` dropped (contamination, licence): no later
    stage sees them. `kept` is what the curate stage kept so far; None before it has run.
    `shards` maps an exporter entry's label to its folder.
    """

    tasks: Sequence[str] = ()
    trajectories: Sequence[str] = ()
    kept: Sequence[str] | None = None
    barred: Sequence[str] = ()
    pairs: Sequence[str] = ()
    shards: tuple[tuple[str, str], ...] = ()


class Item(Base, frozen=True, kw_only=True):
    """A planned work item. `id` is its done-key, `ref` the id of what it works on, `params` what else it needs (JSON).

    `group` is the group key (a task id) for scope group.
    """

    id: str
    ref: str
    group: str = ""
    params: dict[str, Any] = {}


class Plan(Base, frozen=True, kw_only=True):
    """The items of one operator, or a part of them. `n_seen` counts the inputs looked at, eligible or not.

    `share` is how much of all its inputs the operator has looked at when this part ends, 0 to 1.
    """

    items: tuple[Item, ...]
    n_seen: int
    share: float = 1.0


class Outcome(Base, frozen=True, kw_only=True):
    """The decision about one item. `outputs` default to the item's `ref` when kept."""

    item_id: str
    decision: Decision
    reason: str
    score: float | None = None
    evidence: dict[str, Any] = {}
    outputs: tuple[str, ...] | None = None


class Pending(Base, frozen=True, kw_only=True):
    """An item left for the next run: budget, breaker, infrastructure."""

    item_id: str
    reason: str


class Result(Base, frozen=True, kw_only=True):
    """What a batch gave: outcomes, rows for side tables (table name → rows), dead letters, pending items."""

    outcomes: tuple[Outcome, ...] = ()
    rows: Mapping[str, Sequence[Any]] = {}
    dead: tuple[DeadLetter, ...] = ()
    pending: tuple[Pending, ...] = ()


class Operator(Plugin, frozen=True, kw_only=True):
    """A plug-in that decides about items. See the module's docstring for the contract.

    at_once: batches that a process runs at the same time, where each takes much memory; None: as many as it can.
    """

    stage: ClassVar[Stage]
    scope: ClassVar[Scope] = Scope.ITEM
    reads: ClassVar[Unit] = "trajectory"
    effect: ClassVar[Effect] = "annotate"
    seeded: ClassVar[bool] = False
    batch_size: ClassVar[int] = 256
    at_once: ClassVar[int | None] = None

    def fingerprint(self, ctx: "Context") -> str:
        """The hash of what shapes this operator's results; plug-ins it is built from are part of its options."""
        return content_id("operator", self.identity(), ctx.recipe.seed if self.seeded else None)

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per input id of the unit that the operator reads; override to multiply or to filter."""
        ids = select_ids(self.reads, inputs)
        return Plan(items=tuple(Item(id=ref, ref=ref) for ref in ids), n_seen=len(ids))

    def pages(self, inputs: WorkingSet, ctx: "Context") -> Iterator[Plan]:
        """The plan in parts that run one after the other; override where one plan would not fit into memory.

        At least one part. Only for operators of scope item and effect add: nothing depends on another part.
        """
        yield self.plan(inputs, ctx)

    def batches(self, items: Sequence[Item]) -> list[Sequence[Item]]:
        """Items that do not depend on each other, cut into batches; override where they differ much in size."""
        return [items[start : start + self.batch_size] for start in range(0, len(items), self.batch_size)]

    def refuse_early(self, folder: Path) -> None:
        """Raises UserError for names and files of the options that a quick look tells to be wrong, before a run.

        folder: what the recipe's relative paths are relative to.
        """

    def present(self, items: Sequence[Item], ctx: "Context") -> bool:
        """Whether what these decided items wrote outside the lake still stands; if not, the batch runs again."""
        return True

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Decide about every item of the batch."""
        raise NotImplementedError(f"{type(self).__name__} must define run()")


def select_ids(unit: Unit, inputs: WorkingSet) -> Sequence[str]:
    """The ids of `unit` in the working set, without the barred ones."""
    if unit == "task":
        return inputs.tasks
    if unit == "pair":
        return inputs.pairs
    if unit == "kept":
        source = inputs.trajectories if inputs.kept is None else inputs.kept
    elif unit == "trajectory":
        source = inputs.trajectories
    else:
        return ()
    barred = frozenset(inputs.barred)
    return tuple(ref for ref in source if ref not in barred) if barred else source


def keep(item: Item, reason: str = "ok", **more: Any) -> Outcome:
    """A keep outcome for `item`."""
    return Outcome(item_id=item.id, decision=Decision.KEEP, reason=reason, **more)


def drop(item: Item, reason: str, **more: Any) -> Outcome:
    """A drop outcome for `item`, with a reason code and, in `evidence`, what shows it."""
    return Outcome(item_id=item.id, decision=Decision.DROP, reason=reason, **more)


def dead(
    item: Item,
    stage: Stage,
    reason: str,
    detail: str = "",
    *,
    source: str = "",
    position: str = "",
    retry: bool = False,
) -> DeadLetter:
    """A dead letter for `item`; the id leaves the detail out, so that a repeated failure adds no row."""
    return DeadLetter(
        id=content_id("dead", stage, item.id, reason),
        item_id=item.id,
        stage=stage,
        source=source or item.ref,
        position=position,
        reason=reason,
        detail=detail[:2000],
        retry=retry,
    )
