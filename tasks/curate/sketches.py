"""The sketches of a set of trajectories, from the lake or made now, and the shingles of a few of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.ids import digest
from schemas.trajectory import Trajectory
from tasks.curate.features import Signed, signatures
from tasks.curate.similarity.greedy import EXACT, Features
from tasks.curate.similarity.record import RECORD, records
from tasks.curate.similarity.shingles import ShingleSets, joined, profile, shingle_sets_of
from tasks.curate.similarity.text import pack
from tasks.curate.spread import spread
from tasks.curate.standing import Standing, codes
from tasks.curate.view import View, prompt_text, view_text

if TYPE_CHECKING:
    from warehouse.lake import Lake


class Sketches(NamedTuple):
    """Sketches in the order of the ids, with what else is compared; `rows` are the new signatures."""

    sketches: NDArray[np.uint16]
    n_words: NDArray[np.int64]
    n_shingles: NDArray[np.int64]
    features: Features
    rows: pa.Table | None


def sketches(lake: "Lake", refs: Sequence[str], view: View, window: int, known: dict[str, Standing]) -> Sketches:
    """Sketches what is new and reads the rest."""

    def make(trajectories: Sequence[Trajectory]) -> list[Signed]:
        texts = [view_text(trajectory, view) for trajectory in trajectories]
        rows = records(texts, [prompt_text(trajectory) for trajectory in trajectories], window)
        return [Signed(digest(text), row.tobytes()) for text, row in zip(texts, rows, strict=True)]

    found = signatures(lake, refs, f"minhash/1/{view}/{window}", RECORD, make)
    record: NDArray[Any] = found.values
    hashes = np.array(record["hashes"], order="C")
    # A text shorter than the window is compared as it stands, not word by word.
    for number in np.flatnonzero(record["n_shingles"] == 0).tolist():
        hashes[number, EXACT] = int(found.text_hashes[number][:16], 16)
    task = codes([known[ref].task_id or _prompt_key(one) for ref, one in zip(refs, record["prompt"], strict=True)])
    teacher = codes([known[ref].teacher for ref in refs])
    return Sketches(
        np.ascontiguousarray(record["sketch"]),
        record["n_words"].astype(np.int64),
        record["n_shingles"].astype(np.int64),
        Features(hashes, np.stack([task, teacher], axis=1)),
        found.rows,
    )


def shingles(lake: "Lake", refs: Sequence[str], view: View, window: int) -> ShingleSets:
    """The distinct shingles of trajectories, read again."""

    def make(trajectories: Sequence[Trajectory]) -> ShingleSets:
        return shingle_sets_of([view_text(trajectory, view) for trajectory in trajectories], window)

    return joined(made for _, made in spread(lake, refs, make))


class Template(NamedTuple):
    """What tells instances of one template apart: equal `text`, other `values` (of the text, or of the prompt)."""

    text: int
    values: int
    prompt: int
    prompt_values: int

    def instance_beside(self, other: "Template") -> bool:
        """Whether both are instances of one template with different values."""
        if self.text == other.text and self.values != other.values:
            return True
        return self.prompt == other.prompt and self.prompt_values != other.prompt_values


def templates(lake: "Lake", refs: Sequence[str], view: View) -> list[Template]:
    """The template and values of trajectories, read again."""

    def make(trajectories: Sequence[Trajectory]) -> list[Template]:
        texts = profile(pack([view_text(trajectory, view) for trajectory in trajectories]), 1)
        asked = profile(pack([prompt_text(trajectory) for trajectory in trajectories]), 1)
        columns = (texts.template, texts.values, asked.template, asked.values)
        return [Template(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    return [one for _, made in spread(lake, refs, make) for one in made]


def _prompt_key(prompt: "np.uint64 | int") -> str:
    """The task of a trajectory without a task id: the text of its prompt, "" when there is none."""
    return f"prompt {int(prompt)}" if prompt else ""
