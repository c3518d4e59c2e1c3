"""The runs of a lake as people are told of them: which one is shown, how it ended, which others there are."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.views.ids import given
from gristmill.views.output import cut, out
from schemas.errors import UserError

if TYPE_CHECKING:
    from warehouse.lake import Lake

_RUNS = """
select run_id, any_value(recipe) as recipe, min(created_at) as started,
       max(created_at) filter (event in ('finished', 'failed')) as finished,
       coalesce(max(status) filter (event in ('finished', 'failed')), 'unfinished') as status,
       any_value(json_extract_string(summary_json, '$.error')) filter (event = 'failed') as error,
       (sum(n_in) filter (event = 'operator'))::bigint as planned
from runs group by run_id order by started desc, run_id desc
"""


def runs_of(lake: "Lake") -> list[dict[str, Any]]:
    """Every run with its recipe, when it began and ended, how, and how many items it planned; the newest first."""
    rows: list[dict[str, Any]] = lake.sql(_RUNS).to_pylist()
    return rows


def run_of(runs: list[dict[str, Any]], ref: str) -> dict[str, Any]:
    """The one run whose id starts with `ref`; for an empty text the newest that got as far as an entry."""
    start = given(ref)
    found = [run for run in runs if run["run_id"].startswith(start)]
    if not found:
        raise UserError(
            f"No run '{start}' in this lake." if start else "No run in this lake yet.",
            todo="List them: gristmill status" if runs else "Make one: gristmill run RECIPE, or gristmill import FILE",
        )
    if start and len(found) > 1:
        known = ", ".join(run["run_id"] for run in found[:5])
        raise UserError(f"'{start}' is the start of {len(found)} runs.", known, "Give more of it.")
    return next((run for run in found if run["planned"] is not None), found[0])


def name_of(run: dict[str, Any]) -> str:
    """Which run, of which recipe, begun when, and how it ended."""
    return f"run {run['run_id']} of {run['recipe']}, begun {run['started']:%Y-%m-%d %H:%M} UTC, {_ending(run)}"


def print_heading(runs: list[dict[str, Any]], shown: dict[str, Any], command: str, lake: str) -> None:
    """Which run is shown; where the lake has others, of which recipes they are and how to see one."""
    out.print(name_of(shown), style="bold", markup=False, soft_wrap=True)
    others = [run for run in runs if run is not shown]
    if not others:
        return
    recipes = ", ".join(sorted({run["recipe"] for run in others}))
    out.print(
        f"{len(others)} more in this lake, of {cut(recipes, 80)}: gristmill status{at(lake)} lists them, "
        f"gristmill {command} RUN{at(lake)} shows one",
        style="dim",
        markup=False,
        soft_wrap=True,
    )


def at(lake: str) -> str:
    """The option that names a lake in a command to copy; empty for the usual one."""
    usual = "://" not in lake and Path(lake).expanduser().resolve() == Path("lake").resolve()
    return "" if usual else f" --lake {lake}"


def took(run: dict[str, Any]) -> str:
    """How long a run took that has ended, in seconds."""
    return f"{(run['finished'] - run['started']).total_seconds():.0f} s" if run["finished"] else ""


def status_of(run: dict[str, Any]) -> str:
    """How a run ended: done, over_limit, failed (and why), stopped; unfinished while it runs or after a kill."""
    return f"{run['status']}: {cut(run['error'].splitlines()[0], 120)}" if run["error"] else str(run["status"])


def _ending(run: dict[str, Any]) -> str:
    if run["finished"]:
        return f"{status_of(run)} after {took(run)}"
    return "has not ended: it still runs, or was killed (running its recipe again goes on)"
