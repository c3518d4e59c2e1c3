"""The stored form of a sketch: one fixed-size record a trajectory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.curate.similarity.shingles import profile
from tasks.curate.similarity.sketch import BINS, sketch
from tasks.curate.similarity.text import pack

# hashes: the columns of `greedy.Features`; prompt: the hash of the whole prompt, 0 when it is empty.
RECORD = np.dtype(
    [
        ("n_words", "<u4"),
        ("n_shingles", "<u4"),
        ("prompt", "<u8"),
        ("hashes", "<u8", (5,)),
        ("sketch", "<u2", (BINS,)),
    ]
)


def records(texts: Sequence[str], prompts: Sequence[str], window: int) -> NDArray[Any]:
    """One RECORD for each text and its prompt."""
    whole, sketches, _ = sketch(pack(texts), window)
    asked = profile(pack(prompts), window)
    rows = np.zeros(len(texts), RECORD)
    rows["n_words"], rows["n_shingles"] = whole.n_words, whole.n_shingles
    rows["prompt"] = np.where(asked.n_words > 0, asked.exact, 0)
    rows["hashes"] = np.stack([whole.exact, whole.template, whole.values, asked.template, asked.values], axis=1)
    rows["sketch"] = sketches
    return rows
