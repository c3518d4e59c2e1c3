"""What the kernels read and what the reference reader read of the same batch, as one result in the items' order."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from schemas.vocabulary import ActionSpace, Decision
from tasks.normalize.columnar.arrow import defaults, steps_array, table_of
from tasks.normalize.columnar.reader import Batch, Columns, batch_of
from tasks.normalize.columnar.tables import CODES, FUNCTIONS
from tasks.normalize.source.spans import stamp_of
from tasks.operator import Item, Outcome, Result
from warehouse.arrow import to_arrow
from warehouse.tables import TABLES, row_columns

if TYPE_CHECKING:
    from tasks.context import Context
    from tasks.normalize.base import Importer


def read_batch(importer: "Importer", items: Sequence[Item], ctx: "Context") -> Result:
    """A batch of records of text files: plain ones by the kernels, all others by the reference reader."""
    plain = importer.plain(ctx)
    batch = None if plain is None else batch_of(plain, importer.read, sum(item.params["length"] for item in items))
    if plain is None or batch is None:
        return importer.run_reference(items, ctx)
    first = 0
    while first < len(items):
        last = first + 1
        while last < len(items) and items[last].params["file"] == items[first].params["file"]:
            last += 1
        _read_file(batch, ctx.path(items[first].params["file"]), first, items[first:last])
        first = last
    columns = batch.columns()
    if columns is None:
        return importer.run_reference(items, ctx)
    taken = frozenset(columns.taken)
    others = [] if len(taken) == len(items) else [item for at, item in enumerate(items) if at not in taken]
    return combined(importer, plain.action_space, items, columns, importer.run_reference(others, ctx))


def _read_file(batch: Batch, path: Path, first: int, items: Sequence[Item]) -> None:
    """Reads the items of one file, where it is still the file that was planned."""
    if not path.is_file() or stamp_of(path) != items[0].params["stamp"]:
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        batch.file(handle, first, [item.params["offset"] for item in items], [item.params["length"] for item in items])
    finally:
        os.close(handle)


def combined(
    importer: "Importer", space: ActionSpace | None, items: Sequence[Item], columns: Columns, rest: Result
) -> Result:
    """The result of a batch. rest: what the reference reader made of the items that `columns` has not taken."""
    taken = items if len(columns.taken) == len(items) else [items[at] for at in columns.taken]
    ids = [item.id for item in taken]
    table = _table(importer, space, taken, ids, columns)
    kept = [Outcome(item_id=key, decision=Decision.KEEP, reason="ok", outputs=(key,)) for key in ids]
    if len(taken) == len(items):
        return Result(outcomes=tuple(kept), rows={**rest.rows, "trajectories": table})
    outcomes = {outcome.item_id: outcome for outcome in kept}
    others = {outcome.item_id: outcome for outcome in rest.outcomes}
    table = _ordered(items, outcomes, table, others, to_arrow("trajectories", rest.rows["trajectories"]))
    outcomes |= others
    return Result(
        outcomes=tuple(outcomes[item.id] for item in items if item.id in outcomes),
        rows={**rest.rows, "trajectories": table},
        dead=rest.dead,
        pending=rest.pending,
    )


@cache
def _schema() -> pa.Schema:
    schema = TABLES["trajectories"].schema
    return pa.schema([schema.field(name) for name in row_columns("trajectories")])


def _table(
    importer: "Importer", space: ActionSpace | None, taken: Sequence[Item], ids: list[str], columns: Columns
) -> pa.Table:
    schema = _schema()
    facts = columns.facts
    refs = [item.ref.rpartition(":") for item in taken]
    tool_sets, lost = [one.tool_sets for one in facts], [one.lost for one in facts]
    tools = np.fromiter(map(bool, tool_sets), np.bool_, len(facts))
    given: dict[str, Any] = defaults() | {
        "id": ids,
        "steps": steps_array(columns.made, columns.ends, tools, schema.field("steps").type),
        "action_space": _spaces(columns, space),
        "provenance.dataset": importer.dataset,
        "provenance.revision": importer.revision,
        "provenance.split": importer.split,
        "provenance.file": [file for file, _, _ in refs],
        "provenance.record": [one.source_id or ref[2] for one, ref in zip(facts, refs, strict=True)],
        "provenance.reader": importer.plugin_id(),
        "provenance.reader_version": str(importer.version),
        "provenance.licence": importer.licence or [one.licence for one in facts],
        "tool_sets": tool_sets if tools.any() else None,
        "policy.model": [one.model for one in facts],
        "provenance.lost_fields": lost if any(lost) else None,
        "outcome.success": [one.success for one in facts],
        "outcome.score": [one.score for one in facts],
        "outcome.raw_json": [one.raw_json for one in facts],
        "source_id": [one.source_id for one in facts],
        "extra_json": [one.extra_json for one in facts],
    }
    return table_of(schema, len(taken), given)


def _spaces(columns: Columns, space: ActionSpace | None) -> "str | pa.Array":
    if space is not None:
        return str(space)
    codes = np.where(columns.acts & FUNCTIONS, 2, np.where(columns.acts & CODES, 1, 0))
    names = [str(name) for name in (ActionSpace.MESSAGE, ActionSpace.CODE, ActionSpace.FUNCTION)]
    return pa.array(names, pa.large_string()).take(pa.array(codes))


def _ordered(
    items: Sequence[Item], own: dict[str, Outcome], table: pa.Table, others: dict[str, Outcome], rest: pa.Table
) -> pa.Table:
    """The rows of both tables in the order of the items; neighbours from the same table stay together."""
    pieces: list[pa.Table] = []
    places = [0, 0]
    pending: list[tuple[int, int]] = []
    for item in items:
        which = 0 if item.id in own else 1
        outcome = own.get(item.id) or others.get(item.id)
        count = len(outcome.outputs or ()) if outcome is not None else 0
        if count and pending and pending[-1][0] == which:
            pending[-1] = (which, pending[-1][1] + count)
        elif count:
            pending.append((which, count))
    for which, count in pending:
        pieces.append((table, rest)[which].slice(places[which], count))
        places[which] += count
    return pa.concat_tables(pieces).combine_chunks()
