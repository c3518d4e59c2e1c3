"""Runs one recipe entry: plan, batches, counts. The same for every operator of every stage.

The way of one entry: `plan_entry` asks the operator which items it will decide about, part by part, and cuts
them into batches (`tasks.batch` runs them); `finish_part` reads the decisions of a part back and checks the law of
counts; `finish_entry` adds the parts up and gives the working set that follows. Nothing is concluded from Prefect:
the ledger alone says what is done.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from schemas.errors import FaultError
from schemas.ids import canonical_json, content_id
from schemas.rows import RunEvent
from schemas.trajectory import Base
from schemas.vocabulary import Decision, Scope, Stage
from tasks.batch import BatchRef, BatchSummary
from tasks.context import Context
from tasks.ids import Ids, as_ids
from tasks.ledger import dead_of, rulings_of, scopes_of
from tasks.operator import Item, Operator, Plan, WorkingSet, select_ids
from tasks.recipe import operator_of
from warehouse.lake import Lake, Stamp

# Rows of `plans` made at once: some 20 MB.
_PLAN_ROWS = 100_000


class EntryPlan(NamedTuple):
    """A planned entry, or a part of one: operator, fingerprint, plan, the hash of its item ids, its batches."""

    stage: Stage
    entry: int
    operator: Operator
    fingerprint: str
    plan: Plan
    n_planned: int
    scope_hash: str
    batches: list[BatchRef]


class EntryReport(Base, frozen=True, kw_only=True):
    """A finished entry: what it decided, per reason, and what stays open.

    n_new: how many of the items this run decided; earlier runs had decided the others.
    """

    stage: Stage
    name: str
    unit: str
    n_seen: int
    n_planned: int
    n_in: int
    n_kept: int
    n_dropped: int
    n_dead: int
    n_pending: int
    n_new: int
    reasons: dict[str, int]
    faults: tuple[str, ...]
    seconds: float


class Part(NamedTuple):
    """A part of an entry that ended: its counts, what its kept items became, and the set after it (None: it adds)."""

    stage: Stage
    report: EntryReport
    outputs: Ids
    after: WorkingSet | None


def plan_entry(ctx: Context, stage: Stage, entry: int, inputs: WorkingSet) -> Iterator[EntryPlan]:
    """Plans one entry, part by part, and records which items it planned (once: the same items again add nothing)."""
    operator = operator_of(ctx.recipe, stage, entry)
    left = ctx.limit
    for plan in operator.pages(inputs, ctx):
        yield _planned(ctx, stage, entry, operator, plan, plan.items if left is None else plan.items[:left])
        left = None if left is None else max(left - len(plan.items), 0)


def _planned(
    ctx: Context, stage: Stage, entry: int, operator: Operator, plan: Plan, items: tuple[Item, ...]
) -> EntryPlan:
    ids = [item.id for item in items]
    if len(set(ids)) != len(ids):
        repeated = [key for key, count in Counter(ids).items() if count > 1]
        raise FaultError(f"{stage}/{operator.plugin_id()} planned items twice: {repeated[:3]}")
    fingerprint = operator.fingerprint(ctx)
    whole = record_plan(ctx.lake, Stamp(ctx.run_id, operator.plugin_id(), fingerprint), ids)
    batches = [
        BatchRef(
            lake=ctx.lake.address,
            recipe=ctx.recipe,
            recipe_dir=str(ctx.recipe_dir),
            out=str(ctx.out),
            run_id=ctx.run_id,
            stage=stage,
            entry=entry,
            number=number,
            scope_hash=whole,
            items=msgspec.msgpack.encode(chunk),
        )
        for number, chunk in enumerate(_unsettled(ctx, operator, fingerprint, _chunks(operator, items)))
    ]
    kept = msgspec.structs.replace(plan, items=items)
    return EntryPlan(stage, entry, operator, fingerprint, kept, len(plan.items), whole, batches)


def _unsettled(
    ctx: Context, operator: Operator, fingerprint: str, chunks: list[Sequence[Item]]
) -> list[Sequence[Item]]:
    """The batches of which something is undecided. Never cut anew: a batch's lease is on exactly its items.

    One look for all, since a task of Prefect's for each takes a tenth of a second: most of an appended file's import.
    """
    if operator.scope is not Scope.ITEM or type(operator).present is not Operator.present:
        return chunks
    items = [item for chunk in chunks for item in chunk]
    settled: set[str] = set(rulings_of(ctx.lake, fingerprint, scopes_of(operator, items, "")))
    settled.update(dead_of(ctx.lake, fingerprint, [i.id for i in items if i.id not in settled], retryable=False))
    return [chunk for chunk in chunks if any(item.id not in settled for item in chunk)]


def record_plan(lake: Lake, stamp: Stamp, ids: Sequence[str]) -> str:
    """Records the membership of a set of different ids under their hash, unless all of it is there; their hash."""
    members = as_ids(ids)
    whole = members.scope_hash()
    held = lake.sql("select count(*) from plans where scope_hash = ?", params=[whole]).column(0)[0].as_py()
    if held == len(members):
        return whole
    # In slices: a working set may have millions of ids. A kill between two leaves the rest to the next run.
    for start in range(0, len(members), _PLAN_ROWS):
        part = members[start : start + _PLAN_ROWS]
        rows = {
            "id": pa.array([content_id("plan", whole, item) for item in part], pa.large_string()),
            "scope_hash": pa.repeat(pa.scalar(whole, pa.large_string()), len(part)),
            "item_id": part.column,
        }
        lake.append(stamp, {"plans": pa.table(rows)})
    return whole


def _chunks(operator: Operator, items: Sequence[Item]) -> list[Sequence[Item]]:
    """Batches: the whole set, whole groups, or what the operator cuts single items into."""
    if not items:
        return []
    if operator.scope is Scope.SET:
        return [items]
    if operator.scope is Scope.ITEM:
        return operator.batches(items)
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    chunks: list[Sequence[Item]] = []
    current: list[Item] = []
    for group in groups.values():
        if current and len(current) + len(group) > operator.batch_size:
            chunks.append(current)
            current = []
        current = [*current, *group]
    return [*chunks, current]


def finish_part(
    ctx: Context, planned: EntryPlan, inputs: WorkingSet, summaries: Sequence[BatchSummary], seconds: float
) -> Part:
    """Reads the decisions back, records the part in `runs`, checks the law of counts.

    What stays open is counted in the ledger and, apart from that, by the batches; a difference is a fault.
    """
    operator, items = planned.operator, planned.plan.items
    rulings = rulings_of(ctx.lake, planned.fingerprint, scopes_of(operator, items, planned.scope_hash))
    dead = dead_of(ctx.lake, planned.fingerprint, [item.id for item in items if item.id not in rulings])
    open_items = [item.id for item in items if item.id not in rulings and item.id not in dead]
    reported = sum(summary.pending for summary in summaries)
    if len(open_items) != reported:
        raise FaultError(
            f"{planned.stage}/{operator.plugin_id()}: the ledger leaves {len(open_items)} of {len(items)} items open, "
            f"the batches reported {reported} pending"
        )
    reasons = Counter(row["reason"] for row in rulings.values())
    reasons.update(dead.values())
    for summary in summaries:
        reasons.update({f"pending:{why}": count for why, count in summary.pending_reasons.items()})
    kept = [row for row in rulings.values() if row["decision"] == Decision.KEEP.value]
    outputs = _outputs(items, rulings)
    report = EntryReport(
        stage=planned.stage,
        name=operator.plugin_id(),
        unit=operator.reads,
        n_seen=planned.plan.n_seen,
        n_planned=planned.n_planned,
        n_in=len(items),
        n_kept=len(kept),
        n_dropped=len(rulings) - len(kept),
        n_dead=len(dead),
        n_pending=len(open_items),
        n_new=sum(summary.n + summary.dead for summary in summaries),
        reasons=dict(reasons),
        faults=tuple(fault for summary in summaries for fault in summary.faults),
        seconds=seconds,
    )
    event = RunEvent(
        id=content_id("run", ctx.run_id, planned.stage, planned.entry, planned.scope_hash),
        event="operator",
        recipe=ctx.recipe.name,
        stage=planned.stage.value,
        entry=planned.entry,
        name=operator.plugin_id(),
        scope=operator.scope.value,
        scope_hash=planned.scope_hash,
        unit=operator.reads,
        n_seen=report.n_seen,
        n_in=report.n_in,
        n_inputs=len({item.ref for item in items}),
        n_outputs=len(outputs),
        seconds=seconds,
        summary_json=canonical_json({"reasons": report.reasons, "faults": report.faults}),
    )
    ctx.lake.append(Stamp(ctx.run_id, operator.plugin_id(), planned.fingerprint), {"runs": [event]})
    after = None if operator.effect == "add" else _next(planned, inputs, rulings)
    return Part(planned.stage, report, outputs, after)


def finish_entry(inputs: WorkingSet, ended: Sequence[Part], seconds: float) -> tuple[WorkingSet, EntryReport]:
    """The working set after an entry, and its parts' counts added up. Only entries that add have several parts."""
    last = ended[-1]
    after = last.after if last.after is not None else _grown(last.stage, inputs, ended)
    return after, _whole([part.report for part in ended], seconds)


def _whole(parts: Sequence[EntryReport], seconds: float) -> EntryReport:
    first = parts[0]
    if len(parts) == 1:
        return msgspec.structs.replace(first, seconds=seconds)
    reasons: Counter[str] = Counter()
    for part in parts:
        reasons.update(part.reasons)
    return EntryReport(
        stage=first.stage,
        name=first.name,
        unit=first.unit,
        n_seen=sum(part.n_seen for part in parts),
        n_planned=sum(part.n_planned for part in parts),
        n_in=sum(part.n_in for part in parts),
        n_kept=sum(part.n_kept for part in parts),
        n_dropped=sum(part.n_dropped for part in parts),
        n_dead=sum(part.n_dead for part in parts),
        n_pending=sum(part.n_pending for part in parts),
        n_new=sum(part.n_new for part in parts),
        reasons=dict(reasons),
        faults=tuple(fault for part in parts for fault in part.faults),
        seconds=seconds,
    )


def _outputs(items: Sequence[Item], rulings: dict[str, dict[str, Any]]) -> Ids:
    """What the kept items became, in the order of the plan, each id once."""
    return Ids(dict.fromkeys(out for item in items if item.id in rulings for out in rulings[item.id]["outputs"]))


def _grown(stage: Stage, inputs: WorkingSet, ended: Sequence[Part]) -> WorkingSet:
    """The working set with what an entry that adds has made; built once, since it may hold millions of ids."""
    place = {Stage.SYNTHESIZE: "tasks", Stage.ROLLOUT: "trajectories", Stage.NORMALIZE: "trajectories"}
    name = {**place, Stage.PAIR: "pairs"}.get(stage)
    if name is None:
        return inputs
    return msgspec.structs.replace(inputs, **{name: Ids.joined([getattr(inputs, name), *(p.outputs for p in ended)])})


def _next(planned: EntryPlan, inputs: WorkingSet, rulings: dict[str, dict[str, Any]]) -> WorkingSet:
    """The working set after an entry that changes what is there, by the operator's effect."""
    operator, stage = planned.operator, planned.stage
    replace = msgspec.structs.replace
    if operator.effect == "annotate":
        return replace(inputs, kept=inputs.trajectories) if stage is Stage.CURATE else inputs
    became = {item.ref: tuple(rulings[item.id]["outputs"]) if item.id in rulings else () for item in planned.plan.items}
    # A filter may look at all trajectories (decontamination), but never brings back what an earlier one dropped.
    source = select_ids("kept" if operator.effect == "filter" else operator.reads, inputs)
    result = tuple(dict.fromkeys(out for ref in source for out in became.get(ref, (ref,))))
    if operator.effect == "map":
        return replace(inputs, trajectories=result)
    barred = inputs.barred
    if getattr(operator, "bars_everywhere", False):
        dropped = {
            i.ref for i in planned.plan.items if i.id in rulings and rulings[i.id]["decision"] == Decision.DROP.value
        }
        barred = tuple(dict.fromkeys([*barred, *sorted(dropped)]))
    return replace(inputs, kept=result, barred=barred)
