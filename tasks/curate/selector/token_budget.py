"""Keeps trajectories until a budget of tokens is spent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from schemas.ids import content_id, seed_for
from tasks.curate.base import Choice, Chosen, SetSelector, side_rows
from tasks.curate.facts import facts
from tasks.curate.standing import KeepPolicy, ranking, standings

if TYPE_CHECKING:
    from tasks.context import Context


class TokenBudget(SetSelector, frozen=True, kw_only=True):
    """Keeps trajectories until a budget of tokens is spent.

    The reason is `over_budget`; the evidence its tokens and what was spent before it.

    A trajectory that does not fit is dropped and a later, shorter one may still fit.

    tokens: the budget. per_word: tokens a word of prompt and actions (an estimate; emit counts exactly).
    order: who comes first: random (by the recipe's seed and the id), best_verdict, shortest, longest, newest, first.
    """

    tokens: Annotated[int, Meta(ge=0)]
    per_word: float = 1.4
    order: KeepPolicy | Literal["random"] = "random"

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where the verdict says who comes first."""
        return self.order == "best_verdict"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """Spends the budget in order."""
        told = facts(ctx.lake, refs, "whole")
        words = told.values["words"].tolist()
        if self.order == "random":
            seed = ctx.recipe.seed
            order = sorted(range(len(refs)), key=lambda number: (seed_for(seed, "budget", refs[number]), refs[number]))
        else:
            known = standings(ctx.lake, refs, self.order)
            order = ranking(self.order, refs, told.values["chars"].tolist(), known).tolist()
        spent = 0
        choices = [Choice(True)] * len(refs)
        for number in order:
            tokens = max(1, round(words[number] * self.per_word))
            fits = spent + tokens <= self.tokens
            choices[number] = Choice(fits, "ok" if fits else "over_budget", tokens, {"tokens": tokens, "spent": spent})
            spent += tokens if fits else 0
        return Chosen(choices, side_rows(signatures=told.rows))

    def fingerprint(self, ctx: "Context") -> str:
        """With the recipe's seed only where the order is random."""

        return content_id("operator", self.identity(), ctx.recipe.seed if self.order == "random" else None)
