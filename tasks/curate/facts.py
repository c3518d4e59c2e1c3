"""Small facts about one view of a trajectory, kept in the lake as a signature, so that no set is decoded twice."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schemas.ids import digest
from schemas.trajectory import Trajectory
from tasks.curate.features import Signatures, Signed, signatures
from tasks.curate.standing import Standing, codes
from tasks.curate.view import View, prompt_text, view_text

if TYPE_CHECKING:
    from warehouse.lake import Lake

# chars, words: the length of the view. numbers: the hash of the numbers that it names and the operators before them,
# in order: 4 - 9 is not 9 - 4.
# prompt: the hash of what users asked, all zero when they asked nothing.
FACTS = np.dtype([("chars", "<u4"), ("words", "<u4"), ("numbers", "V16"), ("prompt", "V16")])
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*|[-+*/%^×÷](?=\s*\(?\d)")


def facts(lake: "Lake", refs: Sequence[str], view: View) -> Signatures:
    """The FACTS of each trajectory, with the hash of the view's text."""

    def make(trajectories: Sequence[Trajectory]) -> list[Signed]:
        signed = []
        for trajectory in trajectories:
            text, prompt = view_text(trajectory, view), prompt_text(trajectory)
            numbers = digest(" ".join(_NUMBER.findall(text)))
            asked = digest(prompt) if prompt else "0" * 32
            row = np.array((len(text), len(text.split()), bytes.fromhex(numbers), bytes.fromhex(asked)), FACTS)
            signed.append(Signed(digest(text), row.tobytes()))
        return signed

    return signatures(lake, refs, f"facts/1/{view}", FACTS, make)


def task_codes(standings: Sequence[Standing], prompts: Sequence[bytes]) -> NDArray[np.int64]:
    """A number for each task: its id, or without one the prompt's hash; -1 where there is neither."""
    return codes([one.task_id or _key(prompt) for one, prompt in zip(standings, prompts, strict=True)])


def _key(prompt: bytes) -> str:
    return f"prompt {prompt.hex()}" if any(prompt) else ""
