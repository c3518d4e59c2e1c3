"""Curates anew what a dataset already holds: verify, refine, label, curate and pair, without any rollout.

Run it: gristmill curate RECIPE (for instance after changing a threshold)
"""

from pathlib import Path

from prefect import flow

from flows.dataset import dataset
from flows.way import Summary, batch_runner, under_way
from schemas.vocabulary import Stage
from tasks.curate.task import curate as curate_batch
from tasks.label.task import label
from tasks.operator import WorkingSet
from tasks.pair.task import pair
from tasks.recipe import load_recipe
from tasks.refine.task import refine
from tasks.verify.task import verify
from warehouse.lake import Lake


@flow(name="curate", persist_result=False, validate_parameters=False, task_runner=batch_runner())
def curate(recipe: str, lake: str = "lake", overrides: list[str] | None = None) -> Summary:
    """Takes the tasks and trajectories of the recipe's newest finished run through the stages after rollout."""
    loaded = load_recipe(recipe, overrides or [])
    opened = Lake.open(lake)
    held = dataset(opened, loaded.name).working
    opened.close()
    start = WorkingSet(tasks=held.tasks, trajectories=held.trajectories)
    with under_way(loaded, lake, str(Path(recipe).parent), working=start) as way:
        way.take(Stage.VERIFY, verify)
        before = way.working
        way.take(Stage.REFINE, refine)
        way.verify_refined(before, verify)
        way.take(Stage.LABEL, label)
        way.take(Stage.CURATE, curate_batch)
        way.take(Stage.PAIR, pair)
        return way.finish()
