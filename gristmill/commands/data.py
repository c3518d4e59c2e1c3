"""Bring foreign logs in, take shards out, train on them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gristmill.commands.run import run_flow
from gristmill.options import JsonOption, LakeOption

if TYPE_CHECKING:
    from warehouse.lake import Lake


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


def add_to(app: typer.Typer) -> None:
    """Registers import, export and train."""
    app.command("import")(import_)
    app.command()(export)
    app.command()(train)


def import_(
    fmt: Annotated[
        str, typer.Argument(metavar="FORMAT", help="An importer's id, 'guess', or a file to guess it from.")
    ],
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Files to read; a pattern in quotes is expanded.")
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
    import re

    from gristmill.views.output import err
    from schemas.errors import UserError
    from schemas.vocabulary import Kind
    from tasks.recipe import parse_recipe, refuse_early
    from tasks.registry import build, plugin_class

    files = list(paths or [])
    found: dict[str, Any] = {}
    if Path(fmt).exists():
        files, fmt = [fmt, *files], "guess"
    if not files:
        if "/" in fmt or "." in fmt:
            raise UserError(f"No file at '{fmt}'.")
        raise UserError(
            "No file to import was named.", todo="gristmill import FORMAT PATH..., or gristmill import PATH"
        )
    from tasks.normalize.source.files import beside_data, expand

    if fmt != "guess":
        plugin_class(Kind.IMPORTER, fmt)
    named = [file.path for file in expand(files, Path(), "the working directory")]
    _say_empty(named)
    for folder in (Path(path) for path in files if Path(path).is_dir()):
        if beside := beside_data(folder):
            shown = ", ".join(str(path) for path in beside[:5]) + (f" and {len(beside) - 5} more" if beside[5:] else "")
            err.print(f"Left aside, for it is no data to import: {shown}", markup=False)
    notes: tuple[str, ...] = ()
    if fmt == "guess":
        from tasks.normalize.guessing.guess import guess
        from tasks.normalize.guessing.kinds import refuse_mixed

        strange = refuse_mixed(named)
        fmt, why, found, notes = guess(*named)
        err.print(f"Reading as {fmt}: {why}", markup=False)
        for path in strange[:5]:
            err.print(f"No known format fits {path}: what cannot be read becomes dead letters", markup=False)
    name = dataset or re.sub(r"[^a-z0-9_-]+", "-", Path(files[0]).stem.lower()).strip("-") or "import"
    entry: dict[str, Any] = {"use": fmt, "paths": [str(Path(path).resolve()) for path in files], "dataset": name}
    if licence:
        entry["licence"] = licence
    given = parse_options(option)
    if "calls" not in given and found:
        entry |= found
        as_text = " ".join(f"--option '{key}={json.dumps(value)}'" for key, value in found.items())
        err.print(f"Read with {as_text}; --option 'calls=[]' leaves calls in text as they are.", markup=False)
    for note in notes if "calls" not in given else ():
        err.print(f"  {note}", markup=False)
    entry |= given
    # Errors about options name no entry of a recipe, for there is none.
    build(Kind.IMPORTER, entry)
    recipe = {"name": name if name[0].isalpha() else f"d{name}", "normalize": [entry]}
    refuse_early(parse_recipe(recipe, "import"), Path())

    def check(opened: "Lake") -> None:
        _refuse_replacing(opened, str(recipe["name"]), entry["paths"])

    run_flow("ingest", lake, as_json, check, recipe=recipe)


def _say_empty(files: list[Path]) -> None:
    """Names files that hold no record; UserError where there is no other."""
    from gristmill.views.output import err
    from schemas.errors import UserError
    from tasks.normalize.guessing.look import is_empty

    empty = [path for path in files if is_empty(path)]
    if len(empty) == len(files):
        raise UserError(f"No record to import: {', '.join(map(repr, map(str, empty[:5])))} is empty.")
    for path in empty[:5]:
        err.print(f"{path} is empty: it holds no record", markup=False)


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


def export(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset: the name of a recipe that has run.")],
    fmt: Annotated[str, typer.Option("--format", help="An exporter's id (gristmill plugins emit).")],
    out: Annotated[str, typer.Option("--out", help="The folder to write into.")],
    snapshot: Annotated[int | None, typer.Option("--at", help="The snapshot to export; default: the newest.")] = None,
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Write dataset NAME as shards in one format. As it stands, or at an earlier snapshot."""
    from flows.dataset import dataset
    from schemas.vocabulary import Kind
    from tasks.registry import plugin_class
    from warehouse.lake import Lake

    plugin_class(Kind.EXPORTER, fmt)
    with Lake.open(lake, read_only=True) as opened:
        dataset(opened if snapshot is None else opened.at(snapshot), name)
    run_flow("export", lake, as_json, name=name, fmt=fmt, out=out, snapshot=snapshot)


def train(
    shards: Annotated[str, typer.Argument(metavar="DIR", help="A folder of shards.")],
    method: Annotated[str, typer.Option("--method", help="sft or grpo (gristmill plugins train).")],
    out: Annotated[str, typer.Option("--out", help="Where the checkpoint goes.")] = "out/train",
    option: Annotated[
        list[str], typer.Option("--option", metavar="KEY=VALUE", help="An option of the trainer (VALUE is TOML).")
    ] = [],  # noqa: B006 - as above
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Train on the shards in DIR for a few steps. The checkpoint is saved."""
    from schemas.errors import UserError
    from schemas.vocabulary import Kind
    from tasks.registry import plugin_class

    plugin_class(Kind.TRAINER, method)
    if not Path(shards).is_dir():
        raise UserError(f"No folder of shards at '{shards}'.", todo="Give a folder that gristmill export or run wrote.")
    run_flow(
        "train",
        lake,
        as_json,
        shards=str(Path(shards).resolve()),
        method=method,
        out=out,
        options=parse_options(option),
    )
