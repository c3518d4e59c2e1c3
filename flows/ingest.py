"""Brings other people's agent logs into the lake: normalize, and verify where the recipe says how.

Run it: gristmill import openai_chat logs/*.jsonl
"""

from typing import Any

from prefect import flow

from flows.way import Summary, batch_runner, under_way
from schemas.vocabulary import Stage
from tasks.normalize.task import normalize
from tasks.recipe import parse_recipe
from tasks.verify.task import verify


@flow(name="ingest", persist_result=False, validate_parameters=False, task_runner=batch_runner())
def ingest(recipe: dict[str, Any], lake: str = "lake", recipe_dir: str = ".") -> Summary:
    """Runs a recipe given as plain data (name and [[normalize]] entries) against the lake."""
    with under_way(parse_recipe(recipe, "import"), lake, recipe_dir) as way:
        way.take(Stage.NORMALIZE, normalize)
        way.take(Stage.VERIFY, verify)
        return way.finish()
