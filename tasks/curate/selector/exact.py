"""Drops exact duplicates: the same actions for the same task."""

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from schemas.ids import digest
from schemas.trajectory import Trajectory
from tasks.curate.base import KEEP, Choice, Chosen, SetSelector, side_rows
from tasks.curate.standing import KeepPolicy, Standing, ranking, standings
from tasks.curate.view import View, prompt_text, view_text

if TYPE_CHECKING:
    from tasks.context import Context

Normalise = Literal["raw", "light", "strong"]


class Exact(SetSelector, frozen=True, kw_only=True):
    """Keeps one of each set of identical trajectories; the reason is `duplicate`, the evidence the kept id.

    The key is the task (its id, or for an imported trajectory without one the text of its prompt), the text of
    `view`, and, unless `teachers` is "together", the teacher: the same answer to different tasks stays, and the
    same task by other teachers is a group, not a duplicate.

    view: what is compared: whole, actions, answer, prompt, patch.
    normalise: `raw` bytes; `light` ignores line ends, trailing spaces and the composition of letters; `strong`
    also case and all runs of white space (indentation included).
    keep: which one stays: best_verdict, shortest, longest, newest, first (smallest id).
    """

    view: View = "actions"
    normalise: Normalise = "light"
    keep: KeepPolicy = "best_verdict"
    teachers: Literal["apart", "together"] = "apart"

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where the verdict says which one stays."""
        return self.keep == "best_verdict"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """One of each cluster stays."""
        import numpy as np

        from tasks.curate.features import Signed, signatures

        layout = np.dtype([("length", "<u8"), ("prompt", "V16")])

        def make(trajectories: Sequence[Trajectory]) -> list[Signed]:
            signed = []
            for trajectory in trajectories:
                text = normalised(view_text(trajectory, self.view), self.normalise)
                prompt = digest(normalised(prompt_text(trajectory), self.normalise))
                row = np.array((len(text), bytes.fromhex(prompt)), layout)
                signed.append(Signed(digest(text), row.tobytes()))
            return signed

        found = signatures(ctx.lake, refs, f"exact/1/{self.view}/{self.normalise}", layout, make)
        known = standings(ctx.lake, refs, self.keep)
        keys = [
            self._key(known[ref], text_hash, prompt)
            for ref, text_hash, prompt in zip(refs, found.text_hashes, found.values["prompt"].tolist(), strict=True)
        ]
        choices: list[Choice] = [KEEP] * len(refs)
        kept: dict[Any, str] = {}
        for number in ranking(self.keep, refs, found.values["length"].tolist(), known):
            first = kept.setdefault(keys[number], refs[number])
            if first != refs[number]:
                evidence = {"kept": first, "text_hash": found.text_hashes[number]}
                choices[number] = Choice(False, "duplicate", 1.0, evidence)
        return Chosen(choices, side_rows(signatures=found.rows))

    def _key(self, standing: Standing, text_hash: str, prompt: bytes) -> tuple[str, str, bytes, str]:
        teacher = standing.teacher if self.teachers == "apart" else ""
        if standing.task_id is not None:
            return standing.task_id, text_hash, b"", teacher
        return "", text_hash, prompt, teacher


def normalised(text: str, how: Normalise) -> str:
    """The text as it is compared; see `Exact`."""
    if how == "raw":
        return text
    text = unicodedata.normalize("NFC", text)
    if how == "strong":
        return " ".join(text.casefold().split())
    return re.sub(r"[^\S\n]+(?=\n|$)", "", text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
