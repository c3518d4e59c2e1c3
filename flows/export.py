"""Writes a dataset in one format, as it stands or at an earlier snapshot.

Run it: gristmill export quickstart --format trl_sft --out shards/
"""

from pathlib import Path

import msgspec
from prefect import flow

from flows.dataset import dataset
from flows.way import Summary, batch_runner, under_way
from schemas.vocabulary import Stage
from tasks.emit.task import emit
from tasks.recipe import parse_recipe
from warehouse.lake import Lake


@flow(name="export", persist_result=False, validate_parameters=False, task_runner=batch_runner())
def export(name: str, fmt: str, out: str, lake: str = "lake", snapshot: int | None = None) -> Summary:
    """Writes dataset `name` with exporter `fmt` into the folder `out`."""
    opened = Lake.open(lake, read_only=True)
    recipe, working, recipe_dir = dataset(opened if snapshot is None else opened.at(snapshot), name)
    opened.close()
    folder = Path(out).expanduser().resolve()
    entry = {"use": fmt, "name": folder.name}
    # The stages before stay in the recipe: lineage names them, and only their own labels and verdicts count.
    whole = msgspec.to_builtins(recipe) | {"emit": [entry], "train": []}
    emitting = parse_recipe(whole, f"export of {name}")
    with under_way(emitting, lake, recipe_dir, str(folder.parent), working=working) as way:
        way.take(Stage.EMIT, emit)
        return way.finish(publish=False)
