"""Scheduled refreshes: deploy a recipe with a cron line, and serve what is deployed."""

from typing import Annotated

import typer

from gristmill.options import JsonOption, LakeOption, SetOption


def add_to(app: typer.Typer) -> None:
    """Registers deploy and serve."""
    app.command()(deploy)
    app.command()(serve)


def deploy(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe file (TOML).")],
    cron: Annotated[str, typer.Option("--cron", help='When to refresh, such as "0 3 * * *".')],
    overrides: SetOption = [],  # noqa: B006 - typer reads the default and never changes it
    lake: LakeOption = "lake",
    out: Annotated[str, typer.Option("--out", help="Folder for shards and checkpoints.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Register a scheduled refresh of RECIPE. `gristmill serve` runs it; a second one replaces the first."""
    from gristmill.server.process import server
    from gristmill.server.settings import prepare
    from gristmill.views.output import out as console
    from gristmill.views.output import print_json
    from tasks.recipe import load_recipe

    name = load_recipe(recipe, overrides).name
    prepare(lake)

    def check() -> None:
        from flows.deployment import schedule

        schedule(cron)

    with server(scheduler=False, meanwhile=check):
        from flows.deployment import register

        register(name, recipe, cron, overrides, lake, out)
    if as_json:
        print_json({"deployment": f"refresh/{name}", "cron": cron})
    else:
        console.print(f"Deployed refresh/{name} ({cron}).\nRun it on schedule with: gristmill serve --lake {lake}")


def serve(
    lake: LakeOption = "lake",
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many refreshes may run at once.")] = 1,
) -> None:
    """Run the deployed refreshes on their schedules. Those of this lake, until stopped."""
    import importlib
    import os

    from gristmill.server.process import server
    from gristmill.server.settings import prepare
    from gristmill.views.output import err

    # Nobody watches a schedule's runs: they say what they do.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO")
    prepare(lake)
    with server(scheduler=True, meanwhile=lambda: importlib.import_module("flows.deployment")) as api:
        from flows.deployment import serve as serve_deployments

        pages = api.removesuffix("/api")
        err.print(f"Serving the schedules of {lake}; runs are shown at {pages}. Stop with Ctrl-C.")
        serve_deployments(limit)
