"""Drops near-duplicates: MinHash finds candidates, true Jaccard similarity decides."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from tasks.curate.base import KEEP, Choice, Chosen, SetSelector, side_rows
from tasks.curate.standing import KeepPolicy, SameTask, ranking, standings
from tasks.curate.view import View

if TYPE_CHECKING:
    from tasks.context import Context

_SPARE = {"compare": 0, "spare_teachers": 1, "spare": 2}


class NearDuplicate(SetSelector, frozen=True, kw_only=True):
    """Keeps one of texts that share most of their word shingles; the reason is `near_duplicate`.

    The evidence is the kept id and the true Jaccard similarity with it, which is also the score. Texts shorter
    than the window are compared exactly, and within their task only.

    threshold: least Jaccard similarity of a duplicate. window: words in a shingle.
    view: what is compared: whole (prompt and actions), actions, answer, prompt, patch.
    keep: which one stays: best_verdict, shortest, longest, newest, first (smallest id).
    same_task: `compare` trajectories of one task (its id, or the text of the prompt) like all others;
    `spare_teachers` leaves those of other teachers alone, since they are a group; `spare` leaves all of them alone.
    across_tasks: whether trajectories of different tasks are compared.
    templates: `spare` two texts or prompts that differ in their numbers only, instances of one template; or
    `compare` them.
    """

    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.8
    window: Annotated[int, Meta(ge=1)] = 5
    view: View = "whole"
    keep: KeepPolicy = "best_verdict"
    same_task: SameTask = "spare_teachers"
    across_tasks: bool = True
    templates: Literal["spare", "compare"] = "spare"

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where the verdict says which one stays."""
        return self.keep == "best_verdict"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """Sketches what is new, reads the texts that share a bucket, decides."""
        from tasks.curate.similarity.greedy import Guards
        from tasks.curate.similarity.minhash import decide
        from tasks.curate.sketches import shingles, sketches

        known = standings(ctx.lake, refs, self.keep)
        found = sketches(ctx.lake, refs, self.view, self.window, known)
        matches = decide(
            found.sketches,
            found.n_shingles,
            found.features,
            ranking(self.keep, refs, found.n_words.tolist(), known),
            self.threshold,
            lambda which: shingles(ctx.lake, [refs[number] for number in which], self.view, self.window),
            Guards(self.templates == "spare", self.across_tasks, _SPARE[self.same_task]),
        )
        choices = [
            _choice(refs, kept, jaccard, spared)
            for kept, jaccard, spared in zip(*(column.tolist() for column in matches), strict=True)
        ]
        return Chosen(choices, side_rows(signatures=found.rows))


def _choice(refs: Sequence[str], kept: int, jaccard: float, spared: int) -> Choice:
    if kept >= 0:
        return Choice(False, "near_duplicate", jaccard, {"kept": refs[kept], "jaccard": jaccard})
    if spared >= 0:
        return Choice(True, "ok", evidence={"resembles": refs[spared]})
    return KEEP
