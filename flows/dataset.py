"""A dataset: what a recipe's newest finished run holds. Asked for without Prefect, which takes seconds to import."""

import json
from typing import Any, NamedTuple

import msgspec

from schemas.errors import UserError
from schemas.recipe import Recipe
from tasks.ids import Ids
from tasks.operator import WorkingSet
from warehouse.lake import Lake

# The parts of a working set that are found again by the hash of their ids.
PARTS = ("tasks", "trajectories", "kept", "barred", "pairs")


class Dataset(NamedTuple):
    """What a recipe's newest finished run holds; relative paths in the recipe are relative to `folder`."""

    recipe: Recipe
    working: WorkingSet
    folder: str


def dataset(lake: Lake, name: str) -> Dataset:
    """The newest finished run of recipe `name` in the lake, as it stands or at a snapshot; UserError without one."""
    recipe, summary = _newest(lake, name)
    working = summary["working"]
    parts: dict[str, Any] = {part: _members(lake, working[part]) for part in PARTS}
    return Dataset(recipe, WorkingSet(**parts), summary.get("folder", "."))


def recipe_of(lake: Lake, name: str) -> Recipe:
    """The recipe of `dataset`, without its millions of ids."""
    return _newest(lake, name)[0]


def _newest(lake: Lake, name: str) -> tuple[Recipe, dict[str, Any]]:
    """The recipe and the summary of the newest finished run."""
    # An early snapshot of the lake may have no tables yet.
    if not lake.sql("select 1 from duckdb_tables() where table_name = 'runs'").num_rows:
        raise UserError(
            f"'{name}' did not exist at that snapshot of {lake.address}.", todo="Name a later one with --at."
        )
    rows = lake.sql(
        "select recipe_json, summary_json from runs where recipe = ? and event = 'finished' "
        "and json_extract(summary_json, '$.working.tasks') is not null "
        "order by created_at desc limit 1",
        params=[name],
    ).to_pylist()
    if not rows:
        names = lake.sql("select distinct recipe from runs where event = 'finished' order by recipe").to_pylist()
        known = ", ".join(row["recipe"] for row in names) or "none yet"
        raise UserError(
            f"No finished run of '{name}' in {lake.address}.",
            f"Datasets here: {known}.",
            "Run its recipe first: gristmill run RECIPE",
        )
    recipe = msgspec.convert(json.loads(rows[0]["recipe_json"]), Recipe)
    return recipe, json.loads(rows[0]["summary_json"])


def _members(lake: Lake, whole: str | None) -> Ids | None:
    if whole is None:
        return None
    found = lake.sql("select distinct item_id from plans where scope_hash = ? order by item_id", params=[whole])
    return Ids(found["item_id"].combine_chunks())
