"""Options that several commands share."""

from typing import Annotated

import typer

LakeOption = Annotated[
    str, typer.Option("--lake", envvar="GRISTMILL_LAKE", help="The lake: a folder, or the address of a catalog.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
SetOption = Annotated[list[str], typer.Option("--set", metavar="A.B=C", help="Override one value of the recipe.")]


def parse_options(given: list[str]) -> dict[str, object]:
    """Options written as KEY=VALUE; VALUE is TOML, or else a plain string."""
    import tomllib

    from schemas.errors import UserError

    found: dict[str, object] = {}
    for option in given:
        key, sign, text = option.partition("=")
        if not sign:
            raise UserError(f"--option '{option}' is not KEY=VALUE.")
        try:
            found[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = text
    return found
