"""Mixes a set in exact ratios: as many trajectories as the scarcest part allows."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from schemas.errors import UserError
from tasks.curate.base import Choice, Chosen, SetSelector, side_rows
from tasks.curate.facts import facts
from tasks.curate.grid import Column, cells
from tasks.curate.standing import KeepPolicy, ranking, standings

if TYPE_CHECKING:
    from tasks.context import Context


class Mixture(SetSelector, frozen=True, kw_only=True):
    """Mixes a set in exact ratios: as many trajectories as the scarcest part allows.

    Reasons: over_ratio (the part has enough), not_in_mixture (no ratio names its value).

    column: whose values are mixed (see `balance`). ratios: the weight of each value, such as
    {arithmetic = 1, code = 3}; weights need not sum to 1. A part that is missing leaves nothing: an error says so.
    size: how many in all; 0 for as many as there can be. Parts are whole numbers: what rounding leaves over goes
    to the largest remainders, names breaking ties.
    keep: which ones stay: best_verdict, shortest, longest, newest, first (smallest id).
    """

    ratios: dict[str, float]
    column: Column = "task_kind"
    size: int = 0
    keep: KeepPolicy = "best_verdict"

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where the verdict says which ones stay."""
        return self.keep == "best_verdict"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """The best of each part."""
        values = [cell[0] for cell in cells(ctx.lake, refs, (self.column,))]
        parts = self._parts(Counter(values))
        told = facts(ctx.lake, refs, "whole")
        order = ranking(self.keep, refs, told.values["chars"].tolist(), standings(ctx.lake, refs, self.keep))
        taken: Counter[str] = Counter()
        choices = [Choice(True)] * len(refs)
        for number in order.tolist():
            value = values[number]
            if value not in parts:
                choices[number] = Choice(False, "not_in_mixture", evidence={self.column: value})
                continue
            taken[value] += 1
            if taken[value] > parts[value]:
                choices[number] = Choice(False, "over_ratio", evidence={self.column: value, "part": parts[value]})
        return Chosen(choices, side_rows(signatures=told.rows))

    def _parts(self, sizes: Counter[str]) -> dict[str, int]:
        """How many of each value stay."""
        if not self.ratios or any(weight <= 0 for weight in self.ratios.values()):
            raise UserError(f"The ratios {self.ratios} of the selector 'mixture' are not all above 0.")
        whole = sum((Fraction(str(weight)) for weight in self.ratios.values()), Fraction(0))
        shares = {value: Fraction(str(weight)) / whole for value, weight in self.ratios.items()}
        if not sizes:
            return dict.fromkeys(shares, 0)
        missing = [value for value in shares if not sizes[value]]
        if missing:
            raise UserError(
                f"The mixture wants {self.column} = {missing[0]!r}, of which there is none.",
                f"There is: {', '.join(f'{value!r} ({count})' for value, count in sorted(sizes.items()))}.",
            )
        total = self.size or max(int(sizes[value] / share) for value, share in shares.items())
        while total > 0:
            parts = _apportion(total, shares)
            if all(parts[value] <= sizes[value] for value in parts):
                return parts
            # The scarcest part bounds the total from above; rounding may ask for one less.
            bound = min(int((sizes[value] + 1) / share) for value, share in shares.items())
            total = min(total - 1, bound)
        return dict.fromkeys(shares, 0)


def _apportion(total: int, shares: dict[str, Fraction]) -> dict[str, int]:
    """Whole parts of `total`, by largest remainders."""
    parts = {value: int(total * share) for value, share in shares.items()}
    left = total - sum(parts.values())
    for value in sorted(shares, key=lambda value: (parts[value] - total * shares[value], value))[:left]:
        parts[value] += 1
    return parts
