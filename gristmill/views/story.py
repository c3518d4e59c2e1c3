"""Everything that was decided about one item, and which of it still holds.

A ruling holds when the newest finished run of a recipe leans on it: made under the options that the recipe has now,
and about the set that it was run on. Older ones stay in the ledger, since changing an option back finds them again.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warehouse.lake import Lake

_CONCERNS = "starts_with(item_id, $ref) or len(list_filter({ids}, lambda other: starts_with(other, $ref))) > 0"
_STORY = f"""
select recipe, run_id, stage, operator, decision, reason, score, evidence_json, outputs, parents, item_id,
       fingerprint, scope_hash, created_at
from (
    select distinct on (id) run_id, stage, operator, decision, reason, score, evidence_json, outputs, parents, item_id,
           fingerprint, scope_hash, created_at
    from decisions where {_CONCERNS.format(ids="list_concat(outputs, parents)")}
    union all
    select distinct on (id) run_id, stage, operator, 'dead', reason, null,
           json_object('source', source, 'position', position, 'detail', detail, 'retry', retry)::varchar, [], parents,
           item_id, fingerprint, '', created_at
    from dead_letters where {_CONCERNS.format(ids="parents")}
) left join (select run_id, any_value(recipe) as recipe from runs group by run_id) using (run_id)
order by created_at
"""  # noqa: S608 - put together from constants

# Of each recipe and stage the newest finished run counts, else the newest. Every export and training counts, since
# each wrote a folder of its own.
_ENTRIES = """
with ended as (
    select run_id, bool_or(event = 'finished') as finished, max(created_at) as ended_at from runs group by run_id
)
select distinct fingerprint, scope, scope_hash, 1 = dense_rank() over (
    partition by recipe, stage, case when stage in ('emit', 'train') then fingerprint else '' end
    order by finished desc, ended_at desc, run_id desc) as newest
from runs join ended using (run_id) where event = 'operator'
"""


def story_of(lake: "Lake", ref: str) -> list[dict[str, Any]]:
    """The rulings and dead letters about items whose id, or whose output's or parent's, starts with `ref`, by time.

    `holds`: whether it still does. A dead letter has the decision `dead`, and what failed as its evidence.
    """
    rows: list[dict[str, Any]] = lake.sql(_STORY, params={"ref": ref}).to_pylist()
    entries = lake.sql(_ENTRIES).to_pylist() if rows else []
    named = {entry["fingerprint"] for entry in entries}
    now = [entry for entry in entries if entry["newest"]]
    whole = {entry["fingerprint"] for entry in now if entry["scope"] != "set"}
    sets = {(entry["fingerprint"], entry["scope_hash"]) for entry in now if entry["scope"] == "set"}
    # Rows are by time: of an item under the same options the last one is the newest.
    newest = {
        (row["fingerprint"], row["item_id"]): number for number, row in enumerate(rows) if row["decision"] != "dead"
    }
    for number, row in enumerate(rows):
        key = row["fingerprint"], row["item_id"]
        leaning = row["fingerprint"] in whole and newest.get(key, number) == number
        # What no run names by its fingerprint was decided by one that has not come to the end of its entry.
        row["holds"] = (
            leaning
            or (row["fingerprint"], row["scope_hash"]) in sets
            or (row["decision"] == "dead" and key not in newest and any(row["fingerprint"] == f for f, _ in sets))
            or row["fingerprint"] not in named
        )
    return rows
