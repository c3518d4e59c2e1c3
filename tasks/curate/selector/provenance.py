"""Tells recorded trajectories from stitched ones, and keeps the sort asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tasks.curate.base import Choice, Selector
from tasks.operator import Item, Result

if TYPE_CHECKING:
    from tasks.context import Context


class Provenance(Selector, frozen=True, kw_only=True):
    """Tells recorded trajectories from stitched ones, and keeps the sort asked for.

    Reasons: real, stitched (a keep for the sort asked for, else a drop); the evidence names the parents.

    Stitched is what was made from other trajectories (a refiner's work, a branch), so that no agent ever ran it as a
    whole from its first step to its last; everything else is real.

    keep: real, stitched, or all (the reason still tells them apart).
    """

    keep: Literal["real", "stitched", "all"] = "real"

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """By parents."""
        refs = [item.ref for item in items]
        rows = ctx.lake.sql("select id, parents from trajectories where id in (select id from ids)", ids=refs)
        parents = {row["id"]: list(row["parents"] or []) for row in rows.to_pylist()}
        every = sorted({parent for some in parents.values() for parent in some})
        known = ctx.lake.sql("select distinct id from trajectories where id in (select id from ids)", ids=every)
        trajectories = set(known.column(0).to_pylist())
        outcomes = []
        for item in items:
            made_from = [parent for parent in parents[item.ref] if parent in trajectories]
            sort = "stitched" if made_from else "real"
            evidence = {"parents": made_from or parents[item.ref]}
            outcomes.append(Choice(self.keep in ("all", sort), sort, evidence=evidence).outcome(item))
        return Result(outcomes=tuple(outcomes))
