"""Look at one item: as a person reads it, and every decision about it."""

from typing import Annotated, Any

import typer

from gristmill.commands.look import open_lake
from gristmill.options import JsonOption, LakeOption

_FIND = 'Find ids with: gristmill query "select id from trajectories limit 5"'


def add_to(app: typer.Typer) -> None:
    """Registers show and why."""
    app.command()(show)
    app.command()(why)


def show(
    ref: Annotated[str, typer.Argument(metavar="ID", help="A trajectory's or task's id, or the start of one.")],
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Show a trajectory or a task as a person reads it."""
    from gristmill.views.output import print_json
    from gristmill.views.reading import print_task, print_trajectory
    from gristmill.views.story import story_of
    from schemas.errors import UserError

    opened = open_lake(lake)
    ref = _named(ref)
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
    elsewhere = story_of(opened, ref)
    raise UserError(
        f"No trajectory or task of this lake has the id '{ref}'.",
        "It is the id of an item that was decided about." if elsewhere else "",
        f"Its story: gristmill why {ref}" if elsewhere else _FIND,
    )


def why(
    ref: Annotated[str, typer.Argument(metavar="ID", help="An item's id, or the start of one.")],
    every: Annotated[bool, typer.Option("--all", help="Also the rulings that no longer hold.")] = False,
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Tell the whole story of one item. Every decision that holds, with reason, score, evidence; --all: older too."""
    from gristmill.views.output import out, print_json
    from gristmill.views.story import story_of
    from schemas.errors import UserError

    opened = open_lake(lake)
    ref = _named(ref)
    rows = story_of(opened, ref)
    if not rows:
        raise UserError(f"No decision in this lake concerns '{ref}'.", todo=_FIND)
    starts = sorted({i for r in rows for i in (r["item_id"], *r["outputs"], *r["parents"]) if i.startswith(ref)})
    if ref in starts:
        # What is written in full is meant, though it begins others: "a.jsonl:1".
        rows, starts = [r for r in rows if ref in (r["item_id"], *r["outputs"], *r["parents"])], [ref]
    if len(starts) > 1:
        raise UserError(f"'{ref}' is the start of {len(starts)} ids.", ", ".join(starts[:5]), "Give more of it.")
    if as_json:
        print_json(rows)
        return
    out.print(f"the story of {starts[0] if starts else ref}", style="bold", markup=False)
    apart = len({row["recipe"] for row in rows}) > 1
    holding, older = _in_order(rows, holds=True), _in_order(rows, holds=False)
    for row in holding:
        _print_ruling(row, apart)
    if not holding:
        out.print("Nothing that was decided about it still holds.")
    if older and every:
        out.print("no longer hold (made under other options, or about another set):", style="bold")
        for row in older:
            _print_ruling(row, apart)
    elif older:
        one = "1 older ruling no longer holds" if len(older) == 1 else f"{len(older)} older rulings no longer hold"
        out.print(f"{one} (made under other options, or about another set): --all shows them", style="dim")


def _named(ref: str) -> str:
    """An id, or the start of one, as it was given; UserError for nothing."""
    from gristmill.views.ids import given
    from schemas.errors import UserError

    if not (start := given(ref)):
        raise UserError("No item was named.", todo=_FIND)
    return start


def _in_order(rows: list[dict[str, Any]], *, holds: bool) -> list[dict[str, Any]]:
    """The rulings that hold, or those that do not, by the order of the stages and then by time."""
    from schemas.vocabulary import Stage

    order = [stage.value for stage in Stage]
    return sorted((row for row in rows if row["holds"] is holds), key=lambda row: order.index(row["stage"]))


def _print_ruling(row: dict[str, Any], apart: bool) -> None:
    """A line, and a second one with the evidence. apart: of which recipe it is."""
    from gristmill.views.output import cut, out

    score = "" if row["score"] is None else f"{row['score']:.4g}"
    line = f"{row['stage']:<11}{row['operator']:<22}{row['decision']:<6}{row['reason']:<22}{score:<8}"
    if apart:
        line += f"decided for {row['recipe']}"
    out.print(line.rstrip(), markup=False)
    if row["evidence_json"] not in ("", "{}"):
        out.print(f"{'':<11}{cut(row['evidence_json'], 600)}", style="dim", markup=False, soft_wrap=True)
