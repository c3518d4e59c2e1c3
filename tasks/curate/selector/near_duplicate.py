"""Drops near-duplicates: MinHash finds candidates, true Jaccard similarity decides."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from schemas.ids import digest
from schemas.trajectory import Trajectory
from tasks.curate.base import KEEP, Choice, Chosen, SetSelector, side_rows
from tasks.curate.standing import KeepPolicy, codes, ranking, standings
from tasks.curate.view import View, prompt_text, view_text

if TYPE_CHECKING:
    import numpy as np

    from tasks.context import Context
    from tasks.curate.features import Signed
    from tasks.curate.similarity.shingles import ShingleSets

_SPARE = {"compare": 0, "spare_teachers": 1, "spare": 2}


class NearDuplicate(SetSelector, frozen=True, kw_only=True):
    """Keeps one of texts that share most of their word shingles; the reason is `near_duplicate`.

    The evidence is the kept id and the true Jaccard similarity with it, which is also the score. Texts shorter
    than the window are compared exactly, and within their task only.

    threshold: least Jaccard similarity of a duplicate. window: words in a shingle.
    view: what is compared: whole (prompt and actions), actions, answer, prompt.
    keep: which one stays: best_verdict, shortest, longest, first (smallest id).
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
    same_task: Literal["compare", "spare_teachers", "spare"] = "spare_teachers"
    across_tasks: bool = True
    templates: Literal["spare", "compare"] = "spare"

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where the verdict says which one stays."""
        return self.keep == "best_verdict"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """Sketches what is new, reads the texts that share a bucket, decides."""
        import numpy as np

        from tasks.curate.features import signatures
        from tasks.curate.similarity.greedy import Features, Guards
        from tasks.curate.similarity.minhash import decide
        from tasks.curate.similarity.record import RECORD

        kind = f"minhash/1/{self.view}/{self.window}"
        found = signatures(ctx.lake, refs, kind, RECORD, self._sign)
        known = standings(ctx.lake, refs)
        record = found.values
        task = codes([known[ref].task_id or _prompt_key(one) for ref, one in zip(refs, record["prompt"], strict=True)])
        teacher = codes([known[ref].teacher for ref in refs])
        hashes = np.array(record["hashes"], order="C")
        for number in np.flatnonzero(record["n_shingles"] == 0):
            hashes[number, 0] = int(found.text_hashes[number][:16], 16)
        matches = decide(
            np.ascontiguousarray(record["sketch"]),
            record["n_shingles"].astype(np.int64),
            Features(hashes, np.stack([task, teacher], axis=1)),
            ranking(self.keep, refs, record["n_words"].tolist(), known),
            self.threshold,
            lambda which: self._shingles([refs[number] for number in which], ctx),
            Guards(self.templates == "spare", self.across_tasks, _SPARE[self.same_task]),
        )
        choices = [
            _choice(refs, kept, jaccard, spared)
            for kept, jaccard, spared in zip(*(column.tolist() for column in matches), strict=True)
        ]
        return Chosen(choices, side_rows(signatures=found.rows))

    def _sign(self, trajectories: Sequence[Trajectory]) -> "list[Signed]":
        from tasks.curate.features import Signed
        from tasks.curate.similarity.record import records

        texts = [view_text(trajectory, self.view) for trajectory in trajectories]
        prompts = [prompt_text(trajectory) for trajectory in trajectories]
        rows = records(texts, prompts, self.window)
        return [Signed(digest(text), row.tobytes()) for text, row in zip(texts, rows, strict=True)]

    def _shingles(self, refs: Sequence[str], ctx: "Context") -> "ShingleSets":
        from tasks.curate.features import in_chunks
        from tasks.curate.similarity.shingles import joined, shingle_sets_of

        return joined(
            shingle_sets_of([view_text(trajectory, self.view) for trajectory in trajectories], self.window)
            for _, trajectories in in_chunks(ctx.lake, refs)
        )


def _prompt_key(prompt: "np.uint64 | int") -> str:
    """The task of a trajectory without a task id: the text of its prompt, "" when there is none."""
    return f"prompt {int(prompt)}" if prompt else ""


def _choice(refs: Sequence[str], kept: int, jaccard: float, spared: int) -> Choice:
    if kept >= 0:
        return Choice(False, "near_duplicate", jaccard, {"kept": refs[kept], "jaccard": jaccard})
    if spared >= 0:
        return Choice(True, "ok", evidence={"resembles": refs[spared]})
    return KEEP
