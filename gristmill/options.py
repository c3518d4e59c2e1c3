"""Options that several commands share."""

from typing import Annotated

import typer

LakeOption = Annotated[
    str, typer.Option("--lake", envvar="GRISTMILL_LAKE", help="The lake: a folder, or the address of a catalog.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
SetOption = Annotated[list[str], typer.Option("--set", metavar="A.B=C", help="Override one value of the recipe.")]
