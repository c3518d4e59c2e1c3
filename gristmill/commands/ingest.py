"""Brings foreign logs in: what is there to read, in which format, with which options; then the flow."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gristmill.commands.run import run_flow
from gristmill.options import JsonOption, LakeOption, parse_options

if TYPE_CHECKING:
    from warehouse.lake import Lake

_SHOWN = 5


def add_to(app: typer.Typer) -> None:
    """Registers import."""
    app.command("import")(import_)


def import_(
    fmt: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help="An importer's id (gristmill plugins normalize), 'guess', or left out."),
    ],
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH...", help="Files or folders to read; a pattern in quotes is expanded."),
    ] = None,
    dataset: Annotated[str, typer.Option("--dataset", help="Name of the dataset; default: the first file's.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Licence of the records, kept in their provenance.")] = "",
    option: Annotated[
        list[str], typer.Option("--option", metavar="KEY=VALUE", help="An option of the importer (VALUE is TOML).")
    ] = [],  # noqa: B006 - typer reads the default and never changes it
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Read foreign agent logs into the interlingua. Importing an appended file again reads only what is new."""
    from schemas.vocabulary import Kind
    from tasks.normalize.source.files import expand
    from tasks.recipe import parse_recipe, refuse_early
    from tasks.registry import build, plugin_class

    given = parse_options(option)
    fmt, files = _named(fmt, paths or [])
    if fmt != "guess":
        plugin_class(Kind.IMPORTER, fmt)
    dataset, name = _dataset(dataset, files[0])
    read = [file.path for file in expand(files, Path(), "the working directory")]
    _say_left_out(files, read)
    found: dict[str, Any] = {}
    if fmt == "guess":
        fmt, found = _guessed(read, given)
    entry: dict[str, Any] = {"use": fmt, "paths": [str(Path(path).resolve()) for path in files], "dataset": dataset}
    entry |= ({"licence": licence} if licence else {}) | found | given
    # Errors about options name no entry of a recipe, for there is none.
    build(Kind.IMPORTER, entry)
    recipe = {"name": name, "normalize": [entry]}
    refuse_early(parse_recipe(recipe, "import"), Path())

    def check(opened: "Lake") -> None:
        _refuse_replacing(opened, name, entry["paths"])

    run_flow("ingest", lake, as_json, check, recipe=recipe)


def _named(fmt: str, paths: list[str]) -> tuple[str, list[str]]:
    """The format and the files that the arguments name: the first one may be a file."""
    from schemas.errors import UserError

    if Path(fmt).exists():
        return "guess", [fmt, *paths]
    if not paths and ("/" in fmt or "." in fmt):
        raise UserError(f"No file at '{fmt}'.")
    if not paths:
        todo = "gristmill import FORMAT PATH..., or gristmill import PATH"
        raise UserError("No file to import was named.", todo=todo)
    return fmt, paths


def _dataset(given: str, file: str) -> tuple[str, str]:
    """The dataset as given, or made from the file's name; and the name of its recipe, which begins with a letter."""
    from schemas.errors import UserError
    from tasks.recipe import NAME_PATTERN

    dataset = given or re.sub(r"[^a-z0-9_-]+", "-", Path(file).stem.lower()).strip("-") or "import"
    name = dataset if dataset[0].isalpha() else f"d{dataset}"
    if not NAME_PATTERN.fullmatch(name):
        raise UserError(f"--dataset '{given}' is no name for a dataset.", f"A name matches {NAME_PATTERN.pattern}.")
    return dataset, name


def _say_left_out(files: Sequence[str], read: Sequence[Path]) -> None:
    """Names what lies beside the data, and files that hold no record; UserError where there is no other file."""
    from gristmill.views.output import err
    from schemas.errors import UserError
    from tasks.normalize.guessing.look import is_empty
    from tasks.normalize.source.files import contents_of

    empty = [path for path in read if is_empty(path)]
    if len(empty) == len(read):
        raise UserError(f"No file holds a record: {_list(empty)}.")
    for folder in (Path(path) for path in files if Path(path).is_dir()):
        if beside := contents_of(folder).beside:
            err.print(f"Left aside, for it is no data to import: {_list(beside)}", markup=False, soft_wrap=True)
    if empty:
        err.print(f"Empty, without a record: {_list(empty)}", markup=False, soft_wrap=True)


def _guessed(read: Sequence[Path], given: dict[str, object]) -> tuple[str, dict[str, Any]]:
    """The format of the files and the options that their records ask for, said with the reasons."""
    from gristmill.views.output import err
    from tasks.normalize.guessing.guess import guess
    from tasks.normalize.guessing.kinds import refuse_mixed

    strange = refuse_mixed(read)
    fmt, why, found, notes = guess(*read)
    err.print(f"Reading as {fmt}: {why}", markup=False, soft_wrap=True)
    if strange:
        err.print(
            f"No known format fits {_list(strange)}: what cannot be read becomes dead letters",
            markup=False,
            soft_wrap=True,
        )
    if "calls" in given:
        return fmt, {}
    if found:
        as_text = " ".join(f"--option '{key}={json.dumps(value)}'" for key, value in found.items())
        err.print(
            f"Read with {as_text}; --option 'calls=[]' leaves calls in text as they are.", markup=False, soft_wrap=True
        )
    for note in notes:
        err.print(f"  {note}", markup=False, soft_wrap=True)
    return fmt, found


def _list(paths: Sequence[Path]) -> str:
    shown = ", ".join(f"'{path}'" for path in paths[:_SHOWN])
    return shown if len(paths) <= _SHOWN else f"{shown} and {len(paths) - _SHOWN} more"


def _refuse_replacing(lake: "Lake", name: str, paths: list[str]) -> None:
    """UserError where a dataset of this name holds files that this import does not name: it would replace them."""
    from flows.dataset import recipe_of
    from schemas.errors import UserError

    try:
        held = recipe_of(lake, name)
    except UserError:
        # No such dataset yet.
        return
    before = {path for entry in held.normalize for path in entry.get("paths", ())}
    missing = sorted(before - set(paths))
    if missing or not held.normalize:
        raise UserError(
            f"The lake has a dataset '{name}' already, {f'with {missing[0]}' if missing else 'made by a recipe'}.",
            "An import makes the dataset of the files it names.",
            "Name another with --dataset, or name the earlier files too (what is read already is not read again).",
        )
