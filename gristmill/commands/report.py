"""A run as a page to look at."""

from typing import Annotated

import typer

from gristmill.commands.look import RunArgument, open_lake, run_id_of
from gristmill.options import LakeOption


def add_to(app: typer.Typer) -> None:
    """Registers report."""
    app.command()(report)


def report(
    run: RunArgument = "",
    out: Annotated[str, typer.Option("--out", help="The page to write.")] = "report.html",
    lake: LakeOption = "lake",
) -> None:
    """Draw a run as a page to look at. Funnel, pass rates, groups, lengths, examples of what was dropped and why."""
    from pathlib import Path

    from gristmill.views.output import out as console
    from gristmill.views.report import write_report
    from schemas.errors import UserError

    if not out or Path(out).is_dir():
        raise UserError(f"--out '{out}' names no file.", todo="Give the page a name: --out report.html")
    opened = open_lake(lake)
    try:
        write_report(opened, run_id_of(opened, run), Path(out))
    except OSError as error:
        raise UserError(f"--out {out} cannot be written: {error.strerror}.") from error
    console.print(f"{out}: open it in a browser", markup=False, soft_wrap=True)
