"""The funnel as a person reads it: one line per entry of the recipe, with its reasons and what tells it apart."""

import json
from typing import TYPE_CHECKING, Any

from rich.padding import Padding

from gristmill.views.output import out, reasons_text
from schemas.vocabulary import Stage

if TYPE_CHECKING:
    from warehouse.lake import Lake


def print_funnel(lake: "Lake", rows: list[dict[str, Any]]) -> None:
    """The funnel view, one line per entry in the order in which they ran; reasons beside it or, narrow, below."""
    head = f"{'stage':<11}{'operator':<16}{'in':>8}{'kept':>8}{'dropped':>9}{'dead':>6}{'pending':>9}"
    out.print(f"[bold]{head}  reasons[/bold]")
    apart = told_apart(recipe_of_run(lake, rows[0]["run_id"])) if rows else {}
    for row in sorted(rows, key=lambda row: row["created_at"]):
        line = f"{row['stage']:<11}{row['operator']:<16}{row['n_in']:>8}{row['n_kept']:>8}{row['n_dropped']:>9}"
        line += f"{row['n_dead']:>6}{row['n_pending']:>9}"
        which = apart.get((row["stage"], row["entry"]))
        reasons = f"{which}: {_reasons(row)}" if which else _reasons(row)
        wide = len(line) + 2 + len(reasons) <= out.width
        out.print(f"{line}  {reasons}" if wide else line, markup=False)
        if not wide:
            out.print(Padding(reasons, (0, 0, 0, 11)), style="dim", markup=False)


def recipe_of_run(lake: "Lake", run_id: str) -> dict[str, Any]:
    """The recipe of a run, as the run recorded it; empty where it recorded none."""
    query = "select recipe_json from runs where run_id = ? and recipe_json <> '{}' limit 1"
    found = lake.sql(query, params=[run_id]).to_pylist()
    return json.loads(found[0]["recipe_json"]) if found else {}


def told_apart(recipe: dict[str, Any]) -> dict[tuple[str, int], str]:
    """What tells entries of one stage apart that use the same plug-in: the first option in which they differ.

    Keys are the stage and the entry's place in it; entries that nothing short tells apart have none.
    """
    found = {}
    for stage in (stage.value for stage in Stage):
        entries = list(enumerate(recipe.get(stage) or ()))
        for use in {entry["use"] for _, entry in entries}:
            same = {place: entry for place, entry in entries if entry["use"] == use}
            options = dict.fromkeys(key for entry in same.values() for key in sorted(entry))
            for key in options if len(same) > 1 else ():
                texts = {place: _short(entry.get(key)) for place, entry in same.items()}
                if all(texts.values()) and len(set(texts.values())) == len(same):
                    found.update({(stage, place): text for place, text in texts.items()})
                    break
    return found


def _short(value: Any) -> str:
    """An option's value as a few words; empty for one that takes more."""
    values = value if isinstance(value, list) else [value]
    plain = all(isinstance(each, str | int | float) for each in values)
    text = ", ".join(map(str, values)) if plain else ""
    return text if len(text) <= 40 else ""


def _reasons(row: dict[str, Any]) -> str:
    if row["n_in"] == 0:
        return f"0 of {row['n_seen']} eligible"
    return reasons_text(json.loads(row["reasons"])) if row["reasons"] else ""
