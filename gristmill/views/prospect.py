"""What a run of a recipe would do: what each entry would read, how much of it, and what is decided already.

Sizes come from a preview, which plans synthesis and imports in full; of what comes behind them only an estimate is
known before the work is done. What is decided is counted in the lake by the entries' fingerprints; nothing is written.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gristmill.views.output import out, table
from schemas.vocabulary import Stage

if TYPE_CHECKING:
    from flows.way import Summary
    from schemas.recipe import Recipe
    from tasks.context import Context

_DECIDED = """
select count(distinct item_id) as n from (
    select item_id from decisions where fingerprint = $fingerprint
    union all select item_id from dead_letters where fingerprint = $fingerprint and not retry)
"""


class Prospect(NamedTuple):
    """An entry of a recipe: what it reads, how many items a run would plan, how many are decided under its options.

    planned: None where nothing is known before the work; exact: it was counted, else estimated. decided: of all that
    was ever planned under these options, so it may be more; for scope set only while the set is the same.
    """

    stage: str
    entry: int
    name: str
    reads: str
    scope: str
    planned: int | None
    exact: bool
    decided: int


def prospects(
    recipe: "Recipe", folder: Path, summary: "Summary", figures: dict[str, float], lake: str
) -> list[Prospect]:
    """One line per entry, by stage. folder: the recipe's; figures: see `gristmill.views.summary.estimate`."""
    from tasks.context import Context
    from tasks.recipe import entries, operator_of
    from warehouse import migrations
    from warehouse.address import resolve
    from warehouse.lake import Lake

    planned = {stage: [one.n_planned for one in summary.entries if one.stage == stage] for stage in Stage}
    imported = sum(planned[Stage.NORMALIZE])
    sizes = {"task": round(figures["tasks"]), "trajectory": imported + round(figures["rollouts"])}
    sizes["kept"] = sizes["trajectory"]
    opened = Lake.open(lake, read_only=True) if migrations.exists(resolve(lake)) else None
    ctx = Context(recipe, opened, "", folder, Path()) if opened else None
    found = []
    try:
        for stage in Stage:
            for number in range(len(entries(recipe, stage))):
                operator = operator_of(recipe, stage, number)
                exact = stage in (Stage.SYNTHESIZE, Stage.NORMALIZE) and number < len(planned[stage])
                size = planned[stage][number] if exact else sizes.get(operator.reads)
                decided = _decided(ctx, operator.fingerprint(ctx)) if ctx and stage is not Stage.TRAIN else 0
                name, reads = operator.plugin_id(), operator.reads
                found.append(Prospect(stage.value, number, name, reads, operator.scope.value, size, exact, decided))
    finally:
        if ctx:
            ctx.close()
        if opened:
            opened.close()
    return found


def _decided(ctx: "Context", fingerprint: str) -> int:
    return int(ctx.lake.sql(_DECIDED, params={"fingerprint": fingerprint}).column(0)[0].as_py())


def print_prospects(found: list[Prospect], lake: str) -> None:
    """The lines as a table; sizes that are no more than estimates say so."""
    table(
        "a run of the whole recipe",
        ["stage", "operator", "reads", "items", "decided already"],
        [[one.stage, one.name, _WORDS[one.reads], _size(one), _known(one)] for one in found],
        right=["items"],
    )
    out.print(
        f"about: what reaches an entry is known only when those before it have run. Decided already: in {lake}.",
        style="dim",
        markup=False,
        soft_wrap=True,
    )


_WORDS = {
    "task": "tasks",
    "trajectory": "trajectories",
    "kept": "what curation kept",
    "pair": "pairs",
    "record": "records",
}


def _size(one: Prospect) -> str:
    if one.planned is None:
        return "?"
    return str(one.planned) if one.exact else f"about {one.planned}"


def _known(one: Prospect) -> str:
    if not one.decided:
        return "none"
    return f"{one.decided}, while the set is the same" if one.scope == "set" else str(one.decided)
