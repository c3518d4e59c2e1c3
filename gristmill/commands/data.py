"""Take shards out, train on them."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.commands.run import run_flow
from gristmill.options import JsonOption, LakeOption, parse_options


def add_to(app: typer.Typer) -> None:
    """Registers export and train."""
    app.command()(export)
    app.command()(train)


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
    from tasks.emit.folder import refuse_foreign
    from tasks.registry import plugin_class
    from warehouse.lake import Lake

    plugin_class(Kind.EXPORTER, fmt)
    refuse_foreign(Path(out).expanduser())
    with Lake.open(lake, read_only=True) as opened:
        dataset(opened if snapshot is None else opened.at(snapshot), name)
    run_flow("export", lake, as_json, name=name, fmt=fmt, out=out, snapshot=snapshot)


def train(
    shards: Annotated[str, typer.Argument(metavar="DIR", help="A folder of shards.")],
    method: Annotated[str, typer.Option("--method", help="sft or grpo (gristmill plugins train).")],
    out: Annotated[str, typer.Option("--out", help="Where the checkpoint goes.")] = "out/train",
    option: Annotated[
        list[str], typer.Option("--option", metavar="KEY=VALUE", help="An option of the trainer (VALUE is TOML).")
    ] = [],  # noqa: B006 - typer reads the default and never changes it
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
