"""Try another threshold before deciding on one."""

from typing import Annotated

import typer

from gristmill.options import JsonOption, LakeOption

_SELECTOR = "near_duplicate"
_LEVELS = [0.7, 0.8, 0.9]


def add_to(app: typer.Typer) -> None:
    """Registers threshold."""
    app.command()(threshold)


def threshold(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset: the name of a recipe that has run.")],
    selector: Annotated[str, typer.Option("--selector", help="near_duplicate, semantic or containment.")] = _SELECTOR,
    levels: Annotated[list[float], typer.Option("--at", help="A threshold to try; may be repeated.")] = _LEVELS,
    shown: Annotated[int, typer.Option("--show", min=0, help="How many of the least similar pairs to show.")] = 3,
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Show how many would go at each similarity threshold. And the least similar pairs among them.

    Looked at is what reaches the selector in the recipe, with the options that the recipe gives it; a selector that
    the recipe does not name is tried behind its last one.
    """
    from pathlib import Path

    from flows.dataset import dataset
    from gristmill.commands.look import open_lake
    from gristmill.views.differences import side_by_side
    from gristmill.views.ids import short
    from gristmill.views.output import out, print_json
    from gristmill.views.runs import at
    from tasks.context import Context
    from tasks.curate.explore import explore
    from tasks.curate.place import place_of

    opened = open_lake(lake)
    held = dataset(opened, name)
    ctx = Context(held.recipe, opened, "", Path(held.folder), Path())
    try:
        place = place_of(ctx, selector, held.working)
        found = explore(ctx, place.selector, place.refs, levels, shown)
    finally:
        ctx.close()
        opened.close()
    if as_json:
        print_json(found)
        return
    for level in found:
        out.print(f"[bold]{selector} at {level.threshold}[/bold]: {level.dropped} of {level.n} would go")
        for pair in level.pairs:
            out.print(f"  {pair.score:.3f}  {short(pair.dropped)} would go for {short(pair.kept)}")
            if pair.dropped_text == pair.kept_text:
                out.print("    (what the selector looks at is the same text in both)", style="dim")
            for dropped, kept in side_by_side(pair.dropped_text, pair.kept_text, max(out.width - 6, 20)):
                out.print(f"    - {dropped}\n    + {kept}", style="dim", markup=False, soft_wrap=True)
    if any(level.pairs for level in found):
        out.print(f"One in full: gristmill show ID{at(lake)}", style="dim", markup=False, soft_wrap=True)
