"""Drops trajectories that say the same in other words: cosine similarity of embeddings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from tasks.curate.base import KEEP, Choice, Chosen, SetSelector, side_rows
from tasks.curate.standing import KeepPolicy, SameTask, apart, ranking, standings
from tasks.curate.view import View

if TYPE_CHECKING:
    from tasks.context import Context


class Semantic(SetSelector, frozen=True, kw_only=True):
    """Keeps one of each set of paraphrases; the reason is `semantic_duplicate`.

    The evidence is the kept id and the cosine similarity with it, rounded to 4 places, which is also the score.
    Embeddings are made once an item: another threshold reads them again.

    threshold: least cosine similarity of a duplicate.
    view: what is compared: whole (prompt and actions), actions, answer, prompt, patch.
    keep: which one stays: best_verdict, shortest, longest, newest, first (smallest id); lengths count in characters.
    same_task, across_tasks: as in `near_duplicate`.
    values: `spare` two texts that name other numbers, which embeddings hardly tell apart; or `compare` them.
    min_words: shorter texts are kept and not compared; a vector says too little about them.
    screen: `static` looks for neighbours with a fast model distilled from the other one first, and only what has
    one within `threshold` − `margin` is embedded and compared; for large sets.
    """

    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.95
    view: View = "whole"
    keep: KeepPolicy = "best_verdict"
    same_task: SameTask = "spare_teachers"
    across_tasks: bool = True
    values: Literal["spare", "compare"] = "spare"
    min_words: Annotated[int, Meta(ge=1)] = 8
    screen: Literal["none", "static"] = "none"
    margin: Annotated[float, Meta(ge=0)] = 0.15

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where the verdict says which one stays."""
        return self.keep == "best_verdict"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """Embeds what is new, compares all."""
        import numpy as np

        from tasks.curate.facts import facts, task_codes
        from tasks.curate.features import stacked
        from tasks.curate.similarity.cosine import greedy_cosine
        from tasks.curate.similarity.embed import embeddings
        from tasks.curate.similarity.neighbours import with_neighbour

        known = standings(ctx.lake, refs, self.keep)
        told = facts(ctx.lake, refs, self.view)
        task = task_codes([known[ref] for ref in refs], told.values["prompt"].tolist())
        teacher, numbers = [known[ref].teacher for ref in refs], told.values["numbers"].tolist()
        order = ranking(self.keep, refs, told.values["chars"].tolist(), known)
        order = order[told.values["words"][order] >= self.min_words]
        rows = []
        if self.screen == "static" and len(order):
            # By id, so that an index over the vectors does not depend on the order of `refs`.
            by_id = np.array(sorted(order.tolist(), key=refs.__getitem__), np.int64)
            rough = embeddings(ctx.lake, [refs[number] for number in by_id.tolist()], self.view, "static")
            near = np.zeros(len(refs), np.bool_)
            near[by_id] = with_neighbour(rough.vectors, self.threshold - self.margin)
            order = order[near[order]]
            rows.append(rough.rows)
        chosen = np.sort(order)
        made = embeddings(ctx.lake, [refs[number] for number in chosen.tolist()], self.view)
        rows.append(made.rows)
        vectors = np.zeros((len(refs), made.vectors.shape[1]), np.float32)
        vectors[chosen] = made.vectors

        def guarded(a: int, b: int) -> bool:
            same = bool(task[a] == task[b] >= 0)
            if apart(same, teacher[a] != teacher[b], self.same_task, self.across_tasks):
                return True
            return self.values == "spare" and numbers[a] != numbers[b]

        found = greedy_cosine(vectors, order, self.threshold, guarded)
        choices = [
            _choice(refs, kept, cosine, spared)
            for kept, cosine, spared in zip(*(column.tolist() for column in found), strict=True)
        ]
        return Chosen(choices, side_rows(signatures=told.rows, embeddings=stacked(rows)))


def _choice(refs: Sequence[str], kept: int, cosine: float, spared: int) -> Choice:
    if kept >= 0:
        return Choice(False, "semantic_duplicate", cosine, {"kept": refs[kept], "cosine": cosine})
    if spared >= 0:
        return Choice(True, "ok", evidence={"resembles": refs[spared]})
    return KEEP
