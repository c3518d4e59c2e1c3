"""Look into a lake: runs, counts, failures, and any question in SQL."""

from typing import TYPE_CHECKING, Annotated

import typer

from gristmill.options import JsonOption, LakeOption

if TYPE_CHECKING:
    from warehouse.lake import Lake


def add_to(app: typer.Typer) -> None:
    """Registers status, funnel, failed and query."""
    for command in (status, funnel, failed, query):
        app.command()(command)


RunArgument = Annotated[str, typer.Argument(metavar="[RUN]", help="A run's id, or the start of one.")]


def open_lake(lake: str) -> "Lake":
    """The lake to look into; UserError when there is none."""
    from pathlib import Path

    from schemas.errors import UserError
    from warehouse.address import resolve
    from warehouse.lake import Lake

    root = resolve(lake).root
    if root is not None and not Path(root).is_dir():
        raise UserError(f"No lake at '{lake}'.", todo="Name it with --lake, or make one: gristmill run RECIPE")
    return Lake.open(lake, read_only=True)


def run_id_of(lake: "Lake", given: str) -> str:
    """The one run whose id starts with `given`; for an empty string the newest that got as far as an entry."""
    from gristmill.views.runs import run_of, runs_of

    found: str = run_of(runs_of(lake), given)["run_id"]
    return found


def status(run: RunArgument = "", lake: LakeOption = "lake", as_json: JsonOption = False) -> None:
    """List the runs of the lake, with how many items they planned. With RUN, show one entry by entry."""
    from gristmill.views.output import out, print_json, table
    from gristmill.views.runs import at, runs_of, status_of, took

    if run:
        funnel(run, lake, as_json)
        return
    rows = runs_of(open_lake(lake))
    if as_json:
        print_json(rows)
        return
    if not rows:
        out.print("No run in this lake yet. Make one: gristmill run RECIPE, or gristmill import FILE")
        return
    table(
        "runs",
        ["run", "recipe", "started (UTC)", "took", "planned", "status"],
        [[r["run_id"], r["recipe"], f"{r['started']:%m-%d %H:%M}", took(r), r["planned"], status_of(r)] for r in rows],
        right=["took", "planned"],
    )
    out.print(f"The counts of one: gristmill funnel RUN{at(lake)}", style="dim", markup=False, soft_wrap=True)


def funnel(run: RunArgument = "", lake: LakeOption = "lake", as_json: JsonOption = False) -> None:
    """Show every count of a run, with reasons. What went in, was kept, dropped, dead, pending; default: the newest."""
    from gristmill.views.funnel import print_funnel
    from gristmill.views.output import out, print_json
    from gristmill.views.runs import at, print_heading, run_of, runs_of
    from warehouse.counts import funnel_of

    opened = open_lake(lake)
    runs = runs_of(opened)
    shown = run_of(runs, run)
    rows = funnel_of(opened, shown["run_id"])
    if as_json:
        print_json(rows)
        return
    print_heading(runs, shown, "funnel", lake)
    if not rows:
        out.print("No entry of it has ended, so there is nothing to count yet.")
        return
    print_funnel(opened, rows)
    if any(row["n_dead"] for row in rows):
        dead = f"gristmill failed {shown['run_id']}{at(lake)}"
        out.print(f"Which items are dead, and why: {dead}", style="dim", markup=False, soft_wrap=True)


def failed(run: RunArgument = "", lake: LakeOption = "lake", as_json: JsonOption = False) -> None:
    """List dead letters: which item, where, why. Those of a run; default: of all runs."""
    from gristmill.views.letters import letters_of, print_letters
    from gristmill.views.output import out, print_json
    from gristmill.views.runs import at, name_of, print_heading, run_of, runs_of

    opened = open_lake(lake)
    runs = runs_of(opened)
    shown = run_of(runs, run) if run else None
    rows = letters_of(opened, shown["run_id"] if shown else "")
    if as_json:
        print_json(rows)
        return
    if shown:
        print_heading(runs, shown, "failed", lake)
    elif len(runs) == 1:
        out.print(name_of(runs[0]), style="bold", markup=False, soft_wrap=True)
    elif runs:
        recipes = ", ".join(sorted({each["recipe"] for each in runs}))
        text = f"all {len(runs)} runs of this lake, of {recipes}; those of one: gristmill failed RUN{at(lake)}"
        out.print(text, style="bold", markup=False, soft_wrap=True)
    if rows:
        print_letters(rows, at(lake))
    else:
        out.print("No dead letters.")


def query(
    sql: Annotated[
        str,
        typer.Argument(metavar="SQL", help="One SELECT statement; funnel, steps, tool_calls, lineage, cost are views."),
    ],
    fmt: Annotated[str, typer.Option("--format", help="table, json, csv or parquet.")] = "table",
    snapshot: Annotated[int | None, typer.Option("--at", help="The snapshot to ask; default: the newest.")] = None,
    out: Annotated[str, typer.Option("--out", help="Write here instead of standard output (parquet needs it).")] = "",
    lake: LakeOption = "lake",
) -> None:
    """Ask the lake anything that only reads. Answers while a refresh writes."""
    from gristmill.views.answers import write_answer
    from gristmill.views.ids import never_equal
    from gristmill.views.output import err
    from warehouse.query import query as ask

    open_lake(lake).close()
    write_answer(ask(lake, sql, at=snapshot), fmt, out)
    for hint in never_equal(sql):
        err.print(hint, style="yellow", markup=False, soft_wrap=True)
