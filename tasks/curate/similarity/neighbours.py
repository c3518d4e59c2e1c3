"""Which items have a near neighbour at all: the first pass before exact comparison.

Exact up to `EXACT_UP_TO` items; beyond that an HNSW index of usearch, built in the order of the items by one
thread, so that the same set gives the same answer. It may miss a neighbour (recall about .99), never invent one.
"""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingExtra

EXACT_UP_TO = 50_000
_BLOCK = 1024
_NEAREST = 4


def with_neighbour(vectors: NDArray[np.float32], threshold: float, exact_up_to: int = EXACT_UP_TO) -> NDArray[np.bool_]:
    """Whether another item's unit vector has a cosine of at least `threshold`, for each of `vectors` [n, d].

    MissingExtra without the extra `curate` for larger sets.
    """
    if len(vectors) > exact_up_to:
        return _by_index(vectors, threshold)
    found = np.zeros(len(vectors), np.bool_)
    for start in range(0, len(vectors), _BLOCK):
        # A block against all that come before its end: every pair is seen once and marks both.
        end = min(start + _BLOCK, len(vectors))
        near = vectors[start:end] @ vectors[:end].T >= threshold
        near[np.arange(end - start), np.arange(start, end)] = False
        found[start:end] |= near.any(axis=1)
        found[:end] |= near.any(axis=0)
    return found


def _by_index(vectors: NDArray[np.float32], threshold: float) -> NDArray[np.bool_]:
    try:
        usearch: Any = importlib.import_module("usearch.index")
    except ImportError as error:
        raise MissingExtra("usearch", "curate") from error
    keys = np.arange(len(vectors))
    index = usearch.Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
    index.add(keys, vectors, threads=1)
    matches = index.search(vectors, _NEAREST, threads=1)
    near = (1 - np.asarray(matches.distances) >= threshold) & (np.asarray(matches.keys) != keys[:, None])
    found: NDArray[np.bool_] = near.any(axis=1)
    return found
