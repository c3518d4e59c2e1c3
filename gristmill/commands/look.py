"""Look into a lake: runs, counts, failures, single items, and any question in SQL."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gristmill.options import JsonOption, LakeOption

if TYPE_CHECKING:
    from warehouse.lake import Lake


def add_to(app: typer.Typer) -> None:
    """Registers status, funnel, failed, show, why and query."""
    for command in (status, funnel, failed, show, why, query):
        app.command()(command)


RunArgument = Annotated[str, typer.Argument(metavar="[RUN]", help="A run's id, or the start of one.")]


def open_lake(lake: str) -> "Lake":
    """The lake to look into; UserError when there is none."""
    from pathlib import Path

    from schemas.errors import UserError
    from warehouse.lake import Lake

    if "://" not in lake and not Path(lake).is_dir():
        raise UserError(f"No lake at '{lake}'.", todo="Name it with --lake, or make one: gristmill run RECIPE")
    return Lake.open(lake, read_only=True)


def run_id_of(lake: "Lake", given: str) -> str:
    """The one run whose id starts with `given`; for an empty string the newest that got as far as an entry."""
    from schemas.errors import UserError

    rows = lake.sql(
        "select run_id from runs where starts_with(run_id, ?) "
        "group by run_id order by bool_or(event = 'operator') desc, max(created_at) desc",
        params=[given],
    ).to_pylist()
    if not rows:
        raise UserError(
            f"No run '{given}' in this lake." if given else "No run in this lake yet.",
            todo="List them: gristmill status",
        )
    if given and len(rows) > 1:
        raise UserError(f"'{given}' is the start of {len(rows)} runs.", ", ".join(row["run_id"] for row in rows[:5]))
    found: str = rows[0]["run_id"]
    return found


def status(run: RunArgument = "", lake: LakeOption = "lake", as_json: JsonOption = False) -> None:
    """List the runs of the lake, with the items that all their entries planned. With RUN, show one entry by entry."""
    from gristmill.output import print_json, table

    opened = open_lake(lake)
    if run:
        funnel(run, lake, as_json)
        return
    rows = opened.sql(
        "select run_id, any_value(recipe) as recipe, min(created_at) as started, "
        "max(created_at) filter (event in ('finished', 'failed')) as finished, "
        "coalesce(max(status) filter (event in ('finished', 'failed')), 'unfinished') as status, "
        "any_value(json_extract_string(summary_json, '$.error')) filter (event = 'failed') as error, "
        "(sum(n_in) filter (event = 'operator'))::bigint as planned "
        "from runs group by run_id order by started desc"
    ).to_pylist()
    if as_json:
        print_json(rows)
        return
    table(
        "runs",
        ["run", "recipe", "started", "took", "planned", "status"],
        [[r["run_id"], r["recipe"], f"{r['started']:%m-%d %H:%M}", _took(r), r["planned"], _status(r)] for r in rows],
        right=["took", "planned"],
    )


def _took(run: dict[str, Any]) -> str:
    """How long a finished run took, in seconds."""
    return f"{(run['finished'] - run['started']).total_seconds():.0f} s" if run["finished"] else ""


def _status(run: dict[str, Any]) -> str:
    """How a run ended: done, over_limit, failed (and why), stopped; unfinished while it runs or after a kill."""
    return f"{run['status']}: {run['error'].splitlines()[0][:120]}" if run["error"] else str(run["status"])


def funnel(run: RunArgument = "", lake: LakeOption = "lake", as_json: JsonOption = False) -> None:
    """Show every count of a run, with reasons. What went in, was kept, dropped, dead, pending; default: the newest."""
    from gristmill.funnel import print_funnel
    from gristmill.output import print_json
    from warehouse.counts import funnel_of

    opened = open_lake(lake)
    rows = funnel_of(opened, run_id_of(opened, run))
    if as_json:
        print_json(rows)
    else:
        print_funnel(opened, rows)


def failed(run: RunArgument = "", lake: LakeOption = "lake", as_json: JsonOption = False) -> None:
    """List dead letters: which item, where, why. Those of a run; default: of all runs."""
    from gristmill.output import out, print_json

    opened = open_lake(lake)
    where, params = ("where run_id = ?", [run_id_of(opened, run)]) if run else ("", [])
    rows = opened.sql(
        "select stage, operator, source, position, reason, detail, retry, item_id from dead_letters "  # noqa: S608 - constant
        f"{where} order by stage, source, position",
        params=params,
    ).to_pylist()
    if as_json:
        print_json(rows)
    elif not rows:
        out.print("No dead letters.")
    else:
        out.print(f"{len(rows)} dead letters", style="bold")
        for r in rows[:200]:
            where = " ".join(filter(None, [r["source"], r["position"]]))
            out.print(f"{r['stage']}/{r['operator']}  {where}  {r['reason']}", markup=False, soft_wrap=True)
            if r["detail"]:
                out.print(f"    {r['detail'][:300]}", style="dim", markup=False, soft_wrap=True)
        if len(rows) > 200:
            out.print(f"{len(rows) - 200} more; --json lists all", style="dim")


def show(
    ref: Annotated[str, typer.Argument(metavar="ID", help="A trajectory's or task's id, or the start of one.")],
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Show a trajectory or a task as a person reads it."""
    from gristmill.output import print_json
    from gristmill.reading import print_task, print_trajectory
    from schemas.errors import UserError

    opened = open_lake(lake)
    for relation in ("trajectories", "tasks"):
        found = opened.sql(f"select distinct id from {relation} where starts_with(id, ?)", params=[ref]).to_pylist()  # noqa: S608 - one of two constants
        if len(found) > 1:
            raise UserError(f"'{ref}' is the start of {len(found)} ids.", ", ".join(row["id"] for row in found[:5]))
        if found and relation == "trajectories":
            trajectory = opened.trajectories([found[0]["id"]])[0]
            if as_json:
                print_json(trajectory)
            else:
                verdicts = opened.verdicts([trajectory.id]).get(trajectory.id, [])
                print_trajectory(trajectory, verdicts)
            return
        if found:
            task = opened.tasks([found[0]["id"]])[0]
            print_json(task) if as_json else print_task(task)
            return
    raise UserError(
        f"Nothing in this lake has the id '{ref}'.",
        todo='Find ids with: gristmill query "select id from trajectories limit 5"',
    )


def why(
    ref: Annotated[str, typer.Argument(metavar="ID", help="An item's id, or the start of one.")],
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Tell the whole story of one item. Every decision about it, with reason, score and evidence."""
    from gristmill.output import out, print_json
    from schemas.errors import UserError

    opened = open_lake(lake)
    rows = opened.sql(
        "select distinct on (id) r.recipe, stage, operator, decision, reason, score, evidence_json, outputs, parents, "
        "item_id, created_at "
        "from decisions "
        "left join (select run_id, any_value(recipe) as recipe from runs group by run_id) r using (run_id) "
        "where starts_with(item_id, $1) "
        "or len(list_filter(list_concat(outputs, parents), lambda other: starts_with(other, $1))) > 0 "
        "order by created_at",
        params=[ref],
    ).to_pylist()
    if not rows:
        raise UserError(
            f"No decision in this lake concerns '{ref}'.",
            todo='Find ids with: gristmill query "select id from trajectories limit 5"',
        )
    starts = sorted({i for r in rows for i in (r["item_id"], *r["outputs"], *r["parents"]) if i.startswith(ref)})
    if len(starts) > 1:
        raise UserError(f"'{ref}' is the start of {len(starts)} ids.", ", ".join(starts[:5]), "Give more of it.")
    if as_json:
        print_json(rows)
        return
    out.print(f"the story of {starts[0] if starts else ref}", style="bold", markup=False)
    recipes = {r["recipe"] for r in rows}
    for r in rows:
        line = f"{r['stage']:<11}{r['operator']:<22}{r['decision']:<6}{r['reason']:<22}{_score(r['score']):<8}"
        if len(recipes) > 1:
            line += f"decided for {r['recipe']}"
        out.print(line.rstrip(), markup=False)
        if r["evidence_json"] not in ("", "{}"):
            out.print(f"{'':<11}{r['evidence_json'][:600]}", style="dim", markup=False, soft_wrap=True)


def _score(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"


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
    from gristmill.answers import write_answer
    from warehouse.query import query as ask

    open_lake(lake).close()
    write_answer(ask(lake, sql, at=snapshot), fmt, out)
