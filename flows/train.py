"""Trains on a folder of shards.

Run it: gristmill train out/quickstart/tokens --method sft
"""

from typing import Any

from prefect import flow

from flows.way import Summary, batch_runner, under_way
from schemas.vocabulary import Stage
from tasks.recipe import parse_recipe
from tasks.train.task import train as train_batch


@flow(name="train", persist_result=False, validate_parameters=False, task_runner=batch_runner())
def train(shards: str, method: str, out: str, lake: str = "lake", options: dict[str, Any] | None = None) -> Summary:
    """Runs trainer `method` on the shards in folder `shards`; the checkpoint goes under `out`."""
    entry = {"use": method, "shards": shards, **(options or {})}
    with under_way(parse_recipe({"name": "train", "train": [entry]}, "train"), lake, out=out) as way:
        way.take(Stage.TRAIN, train_batch)
        return way.finish(publish=False)
