"""Keeps the trajectories with the most interaction: tool calls a step of the agent, or in all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from tasks.curate.base import Choice, Chosen, SetSelector

if TYPE_CHECKING:
    from tasks.context import Context


class InteractionDensity(SetSelector, frozen=True, kw_only=True):
    """Keeps the trajectories with the most interaction: tool calls a step of the agent, or in all.

    The reason is `sparse`; the score is the density, the evidence the rank and the last density that was kept.

    measure: `calls` counts tool calls that were answered, `per_step` divides them by the agent's steps.
    top: how many stay (at least 1), or share: which share of them, rounded up. least: the least density that stays.
    Equal densities are ranked by id.
    """

    measure: Literal["calls", "per_step"] = "calls"
    top: Annotated[int, Meta(ge=1)] | None = None
    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    least: float = 0.0

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """From the densest to the sparsest."""
        rows = ctx.lake.sql(
            "select id, len(list_filter(steps, lambda s: s.source = 'agent')) as acting, "
            "coalesce(list_sum(list_transform(steps, lambda s: least(len(s.tool_calls), len(s.results)))), 0) as calls "
            "from trajectories where id in (select id from ids)",
            ids=refs,
        ).to_pylist()
        density = {row["id"]: _density(self.measure, row["calls"], row["acting"]) for row in rows}
        order = sorted(density, key=lambda ref: (-density[ref], ref))
        limits = [len(order)]
        if self.top is not None:
            limits.append(self.top)
        if self.share is not None:
            limits.append(-int(-len(order) * self.share // 1))
        most = min(limits)
        place = {ref: number for number, ref in enumerate(order)}
        last = density[order[most - 1]] if most else 0.0
        return Chosen(
            [
                Choice(
                    place[ref] < most and density[ref] >= self.least,
                    "ok" if place[ref] < most and density[ref] >= self.least else "sparse",
                    density[ref],
                    {"rank": place[ref] + 1, "of": len(order), "last_kept": last},
                )
                for ref in refs
            ]
        )


def _density(measure: str, calls: int, acting: int) -> float:
    return float(calls) if measure == "calls" else calls / max(1, acting)
