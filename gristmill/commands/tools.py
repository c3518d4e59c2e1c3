"""The workshop: plug-ins, benchmarks, the state of this machine and of the lake, set-up, maintenance."""

from typing import Annotated

import typer

from gristmill.options import JsonOption, LakeOption


def add_to(app: typer.Typer) -> None:
    """Registers plugins, bench, doctor, setup, environment and maintain."""
    app.command()(plugins)
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench)
    for command in (doctor, setup, environment, maintain):
        app.command()(command)


def plugins(
    which: Annotated[
        str, typer.Argument(metavar="[STAGE|ID]", help="A stage's plug-ins with their options, or one in full.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List the plug-ins and what each does. Of a stage or of one, also the options with their defaults."""
    from rich.padding import Padding

    from gristmill.catalogue import catalogue, rewrapped
    from gristmill.views.output import out, print_json
    from schemas.errors import UserError, meant
    from schemas.vocabulary import Stage

    found = catalogue(which if which in set(Stage) else "")
    if which and which not in set(Stage):
        known = [*Stage, *(plugin["id"] for plugin in found)]
        found = [plugin for plugin in found if plugin["id"] == which]
        if not found:
            raise UserError(f"No stage or plug-in '{which}'.", f"Stages: {', '.join(Stage)}.", meant(which, known))
    if as_json:
        print_json(found)
        return
    stage = ""
    for plugin in found:
        if plugin["stage"] != stage:
            stage = plugin["stage"]
            out.print(f"\n[bold]{stage}[/bold]")
        if not which:
            sort = f"({plugin['kind']}) " if plugin["kind"] in ("teacher", "environment") else ""
            out.print(f"  {plugin['id']:<26}{sort}{plugin['what']}", markup=False, soft_wrap=True)
            continue
        out.print(f"  [bold]{plugin['id']}[/bold]  [dim]{plugin['kind']}[/dim]")
        out.print(
            Padding(rewrapped(plugin["doc"]) if which == plugin["id"] else plugin["what"], (0, 0, 0, 4)), markup=False
        )
        for option, default in plugin["options"].items():
            out.print(f"      {option} = {default}", markup=False)
    if not which:
        out.print("\nOptions and defaults: gristmill plugins STAGE; one in full: gristmill plugins ID", style="dim")


def bench(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="client, normalize, verify, similarity, curate or emit.")],
    peer: Annotated[str, typer.Option("--peer", help="A checkout of the peer to measure beside ours.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Measure one hot path beside its peers. In the same run; needs a source checkout.

    Further options are the benchmark's own, such as --runs 3 or --items 20000; its --help lists them.
    """
    import subprocess
    import sys
    from pathlib import Path

    from schemas.errors import UserError, meant

    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    known = sorted(file.stem for file in folder.glob("*.py") if not file.stem.startswith("_"))
    if name not in known:
        todo = meant(name, known)
        raise UserError(
            f"Unknown benchmark '{name}'.", f"Known: {', '.join(known) or 'none (not a source checkout)'}.", todo
        )
    command = [
        sys.executable,
        str(folder / f"{name}.py"),
        *(["--peer", peer] if peer else []),
        *(["--json"] if as_json else []),
        *ctx.args,
    ]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def doctor(lake: LakeOption = "lake", as_json: JsonOption = False) -> None:
    """Check the sandbox, the lake, models, extensions. And say what to do about each."""
    from rich.markup import escape

    from gristmill.health import examine
    from gristmill.views.output import out, print_json

    findings = examine(lake)
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            mark = {"ok": "[green]ok  [/green]", "warn": "[yellow]warn[/yellow]", "bad": "[red]bad [/red]"}[
                finding["state"]
            ]
            out.print(f"{mark} {finding['what']:<12} {escape(finding['found'])}")
            if finding["todo"]:
                out.print(f"     → {finding['todo']}", markup=False)
    if any(finding["state"] == "bad" for finding in findings):
        raise typer.Exit(1)


def setup() -> None:
    """Prepare the embedded model and the kernels. Once; nothing is downloaded, a package holds the weights."""
    from gristmill.views.output import err
    from tasks.curate.similarity.warm import warm
    from tasks.normalize.columnar.warm import warm as warm_import
    from tasks.rollout.engine.model_files import prepare_model

    err.print(f"embedded model: {prepare_model()}", soft_wrap=True)
    warm()
    err.print("similarity kernels: compiled")
    warm_import()
    err.print("import kernels: compiled")


def environment(
    pins: Annotated[list[str], typer.Argument(metavar="PIN...", help="Exact pins, such as numpy==2.4.0.")],
    as_json: JsonOption = False,
) -> None:
    """Build the environment that tasks with PINs run in. The only step that downloads packages."""
    from gristmill.views.output import out, print_json
    from tasks.sandbox.programs.environments import build, place
    from tasks.sandbox.state import state_dir

    state = state_dir()
    found = build(state, pins)
    folder = str(place(state, found.pins))
    if as_json:
        print_json({"pins": list(found.pins), "lock": found.lock, "folder": folder})
        return
    out.print(f"{folder}\nlock {found.lock}", markup=False)


def maintain(lake: LakeOption = "lake", as_json: JsonOption = False) -> None:
    """Merge small files, clean up what nothing names. Old snapshots expire; it waits until no refresh is writing."""
    from gristmill.commands.look import open_lake
    from gristmill.views.output import out, print_json
    from warehouse.lake import Lake
    from warehouse.maintenance import maintain as run_maintenance

    open_lake(lake).close()
    opened = Lake.open(lake)
    report = run_maintenance(opened)
    opened.close()
    if as_json:
        print_json(report)
    else:
        out.print(
            f"files: {report.merged_files} merged, {report.live_files} live, {report.deleted_files} deleted; "
            f"orphans deleted: {report.deleted_orphans}; blobs deleted: {report.deleted_blobs}; "
            f"snapshots expired: {report.expired_snapshots}"
        )
