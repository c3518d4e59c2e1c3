"""Clusters of unit vectors: spherical k-means from farthest points, the same on every machine."""

import numpy as np
from numpy.typing import NDArray

from tasks.curate.similarity.farthest import farthest
from tasks.curate.similarity.minilm import unit

_ROUNDS, _BLOCK, _PLACES = 25, 65_536, 4


def clusters(vectors: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The cluster of each of `vectors` [n, d], from 0 to at most k − 1; numbers follow the farthest points.

    Chance plays no part. Cosines and centres are rounded, so that the last bits of a matrix product decide nothing.
    """
    if not len(vectors):
        return np.zeros(0, np.int64)
    centres = vectors[list(farthest(vectors, k).picked)]
    labels = _nearest(vectors, centres)
    for _ in range(_ROUNDS):
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, vectors)
        some = np.bincount(labels, minlength=len(centres)) > 0
        centres = np.where(some[:, None], unit(sums), centres)
        before, labels = labels, _nearest(vectors, centres)
        if np.array_equal(before, labels):
            break
    return labels


def _nearest(vectors: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int64]:
    parts = [
        np.round((vectors[start : start + _BLOCK] @ centres.T).astype(np.float64), _PLACES).argmax(axis=1)
        for start in range(0, len(vectors), _BLOCK)
    ]
    return np.concatenate(parts).astype(np.int64)
