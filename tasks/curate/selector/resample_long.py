"""Lets long trajectories count several times, so that the many short ones do not drown them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta

from schemas.trajectory import Base
from tasks.curate.base import Choice, Selector
from tasks.operator import Item, Result

if TYPE_CHECKING:
    from tasks.context import Context

_SQL = {
    "turns": "len(list_filter(steps, lambda s: s.source = 'agent' and not s.copied_context))",
    "calls": "coalesce(list_sum(list_transform(steps, lambda s: "
    "case when s.copied_context then 0 else len(s.tool_calls) end)), 0)",
}


class Band(Base, frozen=True):
    """Trajectories of length `at_least` and more count `times` times."""

    at_least: Annotated[int, Meta(ge=1)]
    times: Annotated[int, Meta(ge=1, le=100)]


class ResampleLong(Selector, frozen=True, kw_only=True):
    """Lets long trajectories count several times, so that the many short ones do not drown them.

    Nothing is dropped. Reasons: resampled, once. The score is how many times it counts, the evidence says that as
    `times` beside its length. An exporter of trajectories writes the rows of a kept one so many times; with several
    entries of this selector the times multiply. Groups for RL and pairs are not resampled.

    measure: what the length counts: `turns` of the agent or its tool `calls`; context copied from another trajectory
    does not count. bands: a list of tables: at_least, times; of those that a length reaches the longest one holds.
    (After DR-Venus, where runs beyond 50 and 100 turns weigh more.)
    """

    resamples: ClassVar[bool] = True
    batch_size: ClassVar[int] = 4096

    measure: Literal["turns", "calls"] = "turns"
    bands: tuple[Band, ...] = (Band(at_least=50, times=2), Band(at_least=100, times=5))

    def __post_init__(self) -> None:
        if not self.bands or len({band.at_least for band in self.bands}) != len(self.bands):
            raise ValueError("bands must be one or more tables, each with an at_least of its own")

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """By length alone, so that no other trajectory can change it."""
        rows = ctx.lake.sql(
            f"select id, {_SQL[self.measure]} as length from trajectories "  # noqa: S608 - an expression from above
            "where id in (select id from ids)",
            ids=[item.ref for item in items],
        ).to_pylist()
        length = {row["id"]: int(row["length"]) for row in rows}
        return Result(outcomes=tuple(self._choice(length[item.ref]).outcome(item) for item in items))

    def _choice(self, length: int) -> Choice:
        reached = [band for band in self.bands if length >= band.at_least]
        times = max(reached, key=lambda band: band.at_least).times if reached else 1
        evidence: dict[str, Any] = {"times": times, self.measure: length}
        return Choice(True, "resampled" if times > 1 else "once", times, evidence)
