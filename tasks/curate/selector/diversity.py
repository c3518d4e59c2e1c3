"""Keeps the most different trajectories: k-center by farthest point."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from tasks.curate.base import Choice, Chosen, SetSelector, side_rows
from tasks.curate.view import View

if TYPE_CHECKING:
    from tasks.context import Context


class Diversity(SetSelector, frozen=True, kw_only=True):
    """Keeps the most different trajectories: k-center by farthest point.

    The reason is `redundant`; the evidence the nearest kept trajectory and the cosine similarity with it.

    Starting with the most central trajectory, the one least similar to all that are kept is added until `count` are
    kept, or until every other one is within `least` of a kept one. Ties fall to the smaller id. The score of a kept
    one is how far it was from those before it (1 − cosine).

    count: how many stay, or share: which share, rounded up. least: stop where the farthest is nearer than this
    distance. view: what is compared: whole (prompt and actions), actions, answer, prompt.
    embedder: minilm, or static, a fast model distilled from it.
    """

    count: Annotated[int, Meta(ge=1)] | None = None
    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    least: float = 0.0
    view: View = "whole"
    embedder: Literal["minilm", "static"] = "minilm"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """Farthest points first."""
        import numpy as np

        from tasks.curate.similarity.embed import embeddings
        from tasks.curate.similarity.farthest import farthest

        found = embeddings(ctx.lake, refs, self.view, self.embedder)
        # In the order of ids, so that ties do not depend on the order of `refs`.
        order = np.array(sorted(range(len(refs)), key=refs.__getitem__), np.int64)
        vectors = found.vectors[order]
        limit = len(refs)
        if self.count is not None:
            limit = min(limit, self.count)
        if self.share is not None:
            limit = min(limit, -int(-len(refs) * self.share // 1))
        choices: list[Choice] = [Choice(True)] * len(refs)
        if not len(refs):
            return Chosen(choices, side_rows(embeddings=found.rows))
        walk = farthest(vectors, limit, self.least)
        for place, number in enumerate(order.tolist()):
            if place in walk.picked:
                choices[number] = Choice(True, "ok", walk.picked[place])
            else:
                cosine = float(walk.closest[place])
                evidence = {"kept": refs[int(order[walk.nearest[place]])], "cosine": cosine}
                choices[number] = Choice(False, "redundant", 1 - cosine, evidence)
        return Chosen(choices, side_rows(embeddings=found.rows))
