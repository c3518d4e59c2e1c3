"""Balances a set over a grid: no cell holds more than its quota, and cells that fall short are reported."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tasks.curate.base import Choice, Chosen, SetSelector, side_rows
from tasks.curate.facts import facts
from tasks.curate.grid import Column, cell_name, cells
from tasks.curate.standing import KeepPolicy, ranking, standings

if TYPE_CHECKING:
    from tasks.context import Context


class Balance(SetSelector, frozen=True, kw_only=True):
    """Balances a set over a grid: no cell holds more than its quota, and cells that fall short are reported.

    The reason is `over_quota`; the evidence the cell, its quota and its size. A kept trajectory of a cell that
    falls short says so: reason `short_cell`, with the quota and what the cell has.

    columns: what makes a cell: task, task_kind, teacher, strategy, harness, tier, dataset, licence, action_space,
    thinking, steps (in powers of two).
    quota: how many of each cell stay; 0 for as many as the smallest cell has.
    expect: cells that must be there, as tables of values; a missing one is reported while the stage runs.
    keep: which ones stay: best_verdict, shortest, longest, newest, first (smallest id).
    """

    columns: tuple[Column, ...] = ("task_kind", "teacher")
    quota: Annotated[int, Meta(ge=0)] = 0
    expect: tuple[dict[str, str], ...] = ()
    keep: KeepPolicy = "best_verdict"

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where the verdict says which ones stay."""
        return self.keep == "best_verdict"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """The best of each cell."""
        where = cells(ctx.lake, refs, self.columns)
        sizes = Counter(where)
        quota = self.quota or min(sizes.values(), default=0)
        for wanted in self.expect:
            cell = tuple(wanted.get(column, "") for column in self.columns)
            if sizes[cell] < quota:
                ctx.say(f"balance: the cell {cell_name(self.columns, cell)} has {sizes[cell]} of {quota}")
        told = facts(ctx.lake, refs, "whole")
        order = ranking(self.keep, refs, told.values["chars"].tolist(), standings(ctx.lake, refs, self.keep))
        taken: Counter[tuple[str, ...]] = Counter()
        choices = [Choice(True)] * len(refs)
        for number in order.tolist():
            cell = where[number]
            evidence = {"cell": cell_name(self.columns, cell), "quota": quota, "size": sizes[cell]}
            if taken[cell] >= quota:
                choices[number] = Choice(False, "over_quota", evidence=evidence)
            elif sizes[cell] < quota:
                choices[number] = Choice(True, "short_cell", evidence=evidence)
            taken[cell] += 1
        return Chosen(choices, side_rows(signatures=told.rows))
