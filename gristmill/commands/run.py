"""Run a recipe, look at a few of its items first, or only check it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gristmill.options import JsonOption, LakeOption, SetOption

if TYPE_CHECKING:
    from flows.way import Summary
    from warehouse.lake import Lake

RecipeArgument = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe file (TOML).")]


def add_to(app: typer.Typer) -> None:
    """Registers run, preview, validate and curate."""
    app.command()(run)
    app.command()(preview)
    app.command()(validate)
    app.command()(curate)


def run(
    recipe: RecipeArgument,
    overrides: SetOption = [],  # noqa: B006 - typer reads the default and never changes it
    lake: LakeOption = "lake",
    out: Annotated[str, typer.Option("--out", help="Folder for shards and checkpoints.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Run RECIPE: make, verify, curate, export, train. Run it again and only what is missing is done."""
    from tasks.recipe import load_recipe, refuse_early

    refuse_early(load_recipe(recipe, overrides), Path(recipe).parent)
    run_flow("refresh", lake, as_json, recipe=recipe, overrides=overrides, out=out)


def curate(
    recipe: RecipeArgument,
    overrides: SetOption = [],  # noqa: B006 - as above
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Curate anew what RECIPE's last run holds. No rollout calls a model."""
    from tasks.recipe import load_recipe

    load_recipe(recipe, overrides)
    run_flow("curate", lake, as_json, recipe=recipe, overrides=overrides)


def run_flow(
    flow_name: str,
    lake: str,
    as_json: bool,
    check: "Callable[[Lake], None]" = lambda _: None,
    **parameters: Any,
) -> None:
    """Runs a flow, drawing its progress, and prints its summary; exit code 3 for failures over the recipe's limit.

    check: see `gristmill.calling.call`.
    """
    from gristmill.calling import call
    from gristmill.views.output import print_json
    from gristmill.views.summary import print_summary

    def shown(summary: "Summary", opened: "Lake") -> None:
        if as_json:
            print_json(summary)
        else:
            print_summary(summary, opened, published=flow_name not in ("export", "train"))

    summary = call(flow_name, lake, quiet=as_json, check=check, shown=shown, **parameters)
    if summary.over_limit:
        from gristmill.views.summary import explain_failures

        explain_failures(summary)
        raise typer.Exit(3)


def preview(
    recipe: RecipeArgument,
    overrides: SetOption = [],  # noqa: B006 - as above
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Take three items through every stage. They go into a lake of their own, and tell what the whole run will take.

    The lake that --lake names is only asked what is decided there already.
    """
    import tempfile

    from tasks.recipe import load_recipe, refuse_early
    from warehouse.address import resolve

    loaded = load_recipe(recipe, overrides)
    refuse_early(loaded, Path(recipe).parent)
    resolve(lake)
    with tempfile.TemporaryDirectory(prefix="gristmill-preview-") as folder:
        from gristmill.calling import call
        from gristmill.views.output import print_json
        from gristmill.views.prospect import print_prospects, prospects
        from gristmill.views.summary import estimate, print_estimate

        out = str(Path(folder) / "out")
        summary = call("refresh", f"{folder}/lake", quiet=as_json, recipe=recipe, overrides=overrides, out=out, limit=3)
        figures = estimate(summary)
    found = prospects(loaded, Path(recipe).parent.resolve(), summary, figures, lake)
    if as_json:
        print_json({"summary": summary, "estimate": figures, "entries": [each._asdict() for each in found]})
        return
    print_prospects(found, lake)
    print_estimate(figures)


def validate(
    recipe: RecipeArgument,
    overrides: SetOption = [],  # noqa: B006 - as above
    as_json: JsonOption = False,
) -> None:
    """Check RECIPE without running it. Its keys, its plug-ins, their options, the files and data sets they name."""
    from gristmill.views.output import out, print_json
    from schemas.vocabulary import Stage
    from tasks.recipe import entries, load_recipe, refuse_early

    loaded = load_recipe(recipe, overrides)
    refuse_early(loaded, Path(recipe).parent)
    found = {stage.value: [entry["use"] for entry in entries(loaded, stage)] for stage in Stage}
    if as_json:
        print_json({"name": loaded.name, "stages": found})
        return
    out.print(f"{recipe} is valid: {loaded.name}", markup=False)
    for stage, names in found.items():
        if names:
            out.print(f"  {stage:<11}{', '.join(names)}")
