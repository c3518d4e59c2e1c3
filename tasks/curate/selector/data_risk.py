"""Bars or tags trajectories that hold secrets or personal data."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from schemas.rows import Verdict
from schemas.trajectory import Base, Trajectory
from tasks.curate.base import KEEP, Choice, Selector
from tasks.curate.risk import Kind, find
from tasks.operator import Item, Unit
from tasks.pages import with_pages
from tasks.texts import changed

if TYPE_CHECKING:
    from tasks.context import Context


class DataRisk(Selector, frozen=True, kw_only=True):
    """Bars or tags trajectories that hold secrets or personal data.

    Reasons: the kind of what was found first in the order of `drop`; `tagged` for what is kept with a finding.

    Every text of the trajectory is looked at, what the environment answered, tools, names, addresses and provenance
    included. The evidence counts values by kind and detector and names the first by step (none for what stands beside
    the steps) and hash; no value is ever written down. What is dropped is
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
        # The same value may stand in a whole and in its part.
        found = list(
            {
                (number, one.kind, one.hashed): (number, one)
                for number, text in dict.fromkeys((*_texts(trajectory), *_texts(with_pages(trajectory, ctx.lake))))
                for one in find(text, kinds)
            }.values()
        )
        if not found:
            return KEEP
        counted = Counter(f"{one.kind}: {one.detector}" for _, one in found)
        kind = min((one.kind for _, one in found), key=kinds.index)
        step, first = next((number, one) for number, one in found if one.kind == kind)
        evidence = {"found": dict(sorted(counted.items())), "step": step, "hash": first.hashed}
        return (
            Choice(False, kind, evidence=evidence) if kind in self.drop else Choice(True, "tagged", evidence=evidence)
        )


def _texts(trajectory: Trajectory) -> Iterator[tuple[int | None, str]]:
    """Every text with the number of its step, None for what stands beside the steps; each text once a step."""
    whole = msgspec.structs.replace(trajectory, steps=())
    parts: list[tuple[int | None, Base]] = [(None, whole), *enumerate(trajectory.steps)]
    for number, part in parts:
        texts: dict[str, None] = {}

        def note(text: str, texts: dict[str, None] = texts) -> str:
            texts[text] = None
            return text

        changed(part, note, note)
        yield from ((number, text) for text in texts)
