"""Bars trajectories whose licence is not allowed."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from schemas.rows import Verdict
from schemas.trajectory import Trajectory
from tasks.curate.base import KEEP, Choice, Selector
from tasks.operator import Item, Unit

if TYPE_CHECKING:
    from tasks.context import Context


class Licence(Selector, frozen=True, kw_only=True):
    """Bars trajectories whose licence is not allowed.

    Reasons: licence_refused, licence_unknown. What is dropped is barred from RL and pairs too.

    allow: allowed licences, refuse: refused ones, by name ("mit", "apache-2.0", "cc-by-*"); case, spaces and
    underscores do not matter, `*` stands for anything. Without `allow` everything that is not refused is allowed.
    own: the licence of trajectories made here, which carry none. unknown: whether one from elsewhere without a
    licence stays.
    """

    bars_everywhere: ClassVar[bool] = True
    reads: ClassVar[Unit] = "trajectory"

    allow: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    own: str = ""
    unknown: bool = False

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """By name."""
        given = trajectory.provenance.licence
        if not given:
            imported = trajectory.provenance.reader is not None
            if imported or not self.own:
                kept = self.unknown or not imported
                return KEEP if kept else Choice(False, "licence_unknown", evidence=_source(trajectory))
            given = self.own
        if any(_matches(pattern, given) for pattern in self.refuse):
            return Choice(False, "licence_refused", evidence={"licence": given, **_source(trajectory)})
        if self.allow and not any(_matches(pattern, given) for pattern in self.allow):
            return Choice(False, "licence_refused", evidence={"licence": given, **_source(trajectory)})
        return KEEP


def _matches(pattern: str, licence: str) -> bool:
    expression = ".*".join(re.escape(part) for part in _plain(pattern).split("*"))
    return re.fullmatch(expression, _plain(licence)) is not None


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().lower())


def _source(trajectory: Trajectory) -> dict[str, str | None]:
    return {"dataset": trajectory.provenance.dataset, "record": trajectory.provenance.record}
