"""A selector where it stands in a recipe: with its own options, and the trajectories that reach it.

Trying a threshold on all trajectories would count what earlier selectors drop anyway; so the entries before it are
followed through the ledger, as the run went through them. Nothing is decided or written here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from schemas.errors import UserError
from schemas.ids import scope_hash
from schemas.vocabulary import Decision, Kind, Stage
from tasks.curate.base import SetSelector
from tasks.ledger import dead_of, rulings_of, scopes_of
from tasks.operator import Operator, WorkingSet, select_ids
from tasks.recipe import entries, operator_of
from tasks.registry import build

if TYPE_CHECKING:
    from tasks.context import Context


class Place(NamedTuple):
    """A selector as the recipe has it, and the ids of the trajectories that the entries before it let pass."""

    selector: SetSelector
    refs: Sequence[str]


def place_of(ctx: "Context", use: str, working: WorkingSet) -> Place:
    """The recipe's first entry of the selector `use`; without one, the selector with its defaults behind the last.

    UserError when it decides about no set, or when an entry before it has not decided about all of `working` yet.
    """
    curated = entries(ctx.recipe, Stage.CURATE)
    number = next((at for at, entry in enumerate(curated) if entry["use"] == use), len(curated))
    selector = build(Kind.SELECTOR, curated[number] if number < len(curated) else {"use": use})
    if not isinstance(selector, SetSelector):
        raise UserError(f"The selector '{use}' has no threshold.", "Known: near_duplicate, semantic, containment.")
    reached = msgspec.structs.replace(working, kept=None, barred=())
    for entry in range(number):
        reached = _behind(operator_of(ctx.recipe, Stage.CURATE, entry), reached, ctx)
    return Place(selector, select_ids(selector.reads, reached))


def _behind(selector: Operator, working: WorkingSet, ctx: "Context") -> WorkingSet:
    """The working set behind a selector, by what the ledger says that it decided."""
    items = selector.plan(working, ctx).items
    fingerprint = selector.fingerprint(ctx)
    rulings = rulings_of(ctx.lake, fingerprint, scopes_of(selector, items, scope_hash([item.id for item in items])))
    dead = dead_of(ctx.lake, fingerprint, [item.id for item in items if item.id not in rulings])
    open_items = len(items) - len(rulings) - len(dead)
    if open_items:
        raise UserError(
            f"The selector '{selector.plugin_id()}' has not decided about {open_items} of {len(items)} trajectories.",
            f"Something has changed since the last run of '{ctx.recipe.name}', such as a verdict.",
            "Curate it again first: gristmill curate RECIPE",
        )
    dropped = {i.ref for i in items if i.id in rulings and rulings[i.id]["decision"] == Decision.DROP.value}
    gone = dropped | {item.ref for item in items if item.id in dead}
    barred = dropped if getattr(selector, "bars_everywhere", False) else set()
    return msgspec.structs.replace(
        working,
        kept=tuple(ref for ref in select_ids("kept", working) if ref not in gone),
        barred=(*working.barred, *sorted(barred)),
    )
