"""Bars or tags trajectories that hold secrets or personal data."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from schemas.rows import Verdict
from schemas.trajectory import Trajectory, text_of
from tasks.curate.base import KEEP, Choice, Selector
from tasks.curate.risk import Kind, find
from tasks.operator import Item, Unit
from tasks.pages import with_pages

if TYPE_CHECKING:
    from tasks.context import Context


class DataRisk(Selector, frozen=True, kw_only=True):
    """Bars or tags trajectories that hold secrets or personal data.

    Reasons: the kind of what was found first in the order of `drop`; `tagged` for what is kept with a finding.

    All of the trajectory is looked at, what the environment answered included. The evidence counts findings by
    kind and detector and names the first by step and hash; no value is ever written down. What is dropped is
    barred from RL and pairs too. (To replace instead: the refiner `redact_personal_data`.)

    drop: kinds that are dropped: secret, email, phone, card, iban, ssn. tag: kinds that are only noted.
    """

    version: ClassVar[int] = 3
    bars_everywhere: ClassVar[bool] = True
    reads: ClassVar[Unit] = "trajectory"

    drop: tuple[Kind, ...] = ("secret", "card", "iban", "ssn")
    tag: tuple[Kind, ...] = ("email", "phone")

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """By kind."""
        kinds = (*self.drop, *self.tag)
        found = [
            (number, one) for number, text in _texts(with_pages(trajectory, ctx.lake)) for one in find(text, kinds)
        ]
        if not found:
            return KEEP
        counted = Counter(f"{one.kind}: {one.detector}" for _, one in found)
        kind = min((one.kind for _, one in found), key=kinds.index)
        step, first = next((number, one) for number, one in found if one.kind == kind)
        evidence = {"found": dict(sorted(counted.items())), "step": step, "hash": first.hashed}
        return (
            Choice(False, kind, evidence=evidence) if kind in self.drop else Choice(True, "tagged", evidence=evidence)
        )


def _texts(trajectory: Trajectory) -> Iterator[tuple[int, str]]:
    """Every text with the number of its step."""
    for number, step in enumerate(trajectory.steps):
        yield number, text_of(step.content)
        if step.reasoning:
            yield number, step.reasoning
        for call in step.tool_calls:
            yield number, call.arguments
        for result in step.results:
            yield number, text_of(result.content)
