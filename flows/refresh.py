"""The whole way of the data: from a recipe to verified, curated shards and a trained checkpoint.

Scheduled or by hand it is the same flow: what the lake already holds is neither made nor paid for again.
Run it: gristmill run recipes/quickstart.toml
"""

from pathlib import Path

from prefect import flow

from flows.way import Summary, batch_runner, under_way
from schemas.vocabulary import Stage
from tasks.curate.task import curate
from tasks.emit.task import emit
from tasks.label.task import label
from tasks.normalize.task import normalize
from tasks.pair.task import pair
from tasks.recipe import load_recipe
from tasks.refine.task import refine
from tasks.rollout.task import rollout
from tasks.synthesize.task import synthesize
from tasks.train.task import train
from tasks.verify.task import verify


@flow(name="refresh", persist_result=False, validate_parameters=False, task_runner=batch_runner())
def refresh(
    recipe: str, lake: str = "lake", overrides: list[str] | None = None, out: str = "", limit: int | None = None
) -> Summary:
    """Runs the recipe at path `recipe` against the lake; returns every count. limit: at most so many items each."""
    loaded = load_recipe(recipe, overrides or [])
    with under_way(loaded, lake, str(Path(recipe).parent), out, limit=limit) as way:
        way.take(Stage.SYNTHESIZE, synthesize)
        way.take(Stage.ROLLOUT, rollout)
        way.take(Stage.NORMALIZE, normalize)
        way.take(Stage.VERIFY, verify)
        before = way.working
        way.take(Stage.REFINE, refine)
        way.verify_refined(before, verify)
        way.take(Stage.LABEL, label)
        way.take(Stage.CURATE, curate)
        way.take(Stage.PAIR, pair)
        way.take(Stage.EMIT, emit)
        way.take(Stage.TRAIN, train)
        return way.finish()
