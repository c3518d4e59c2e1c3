"""Exports a set outside a recipe run: `gristmill export NAME --format F --out DIR` calls `export_dataset`."""

from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import UserError
from schemas.rows import Export
from schemas.vocabulary import Kind
from tasks.context import Context
from tasks.emit.base import Exporter, Written
from tasks.operator import WorkingSet
from tasks.registry import build


def export_dataset(ctx: Context, inputs: WorkingSet, form: str, out: Path, **options: Any) -> tuple[Written, Export]:
    """Writes `inputs` into the folder `out` as format `form` (an exporter's id) and returns what was written.

    `ctx.lake` may be a read-only view of an earlier snapshot; the caller appends the returned `exports` row to the
    live lake. `options` are the exporter's own. UserError: an unknown format or option, nothing to export, or a
    folder that holds other files.
    """
    options.setdefault("name", out.name)
    exporter = build(Kind.EXPORTER, {"use": form, **options})
    if not isinstance(exporter, Exporter):
        raise UserError(f"'{form}' is not an exporter.")
    plan = exporter.plan(inputs, ctx)
    if not plan.items:
        raise UserError(
            f"There is nothing to export as {form}.",
            f"The set holds {len(inputs.tasks)} tasks, {len(inputs.trajectories)} trajectories, "
            f"{len(inputs.kept or ())} kept, {len(inputs.pairs)} pairs; {form} reads {exporter.reads}.",
        )
    written = exporter.write(plan.items, ctx, out)
    return written, exporter.export_row(written, ctx)


def manifest_summary(written: Written) -> dict[str, Any]:
    """The manifest as plain data, for printing."""
    made: dict[str, Any] = msgspec.to_builtins(written.manifest)
    return made
