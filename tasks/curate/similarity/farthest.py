"""Farthest-point traversal: items of a set in the order in which each is the least like all before it (k-center)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Traversal(NamedTuple):
    """picked: item number → how far it was from those before it (1 − cosine; 1 for the first), in order.

    nearest[i] is the picked item that item i is most like, closest[i] their cosine (inf for a picked one).
    """

    picked: dict[int, float]
    nearest: NDArray[np.int64]
    closest: NDArray[np.float64]


def farthest(vectors: NDArray[np.float32], limit: int, least: float = 0.0) -> Traversal:
    """Starts with the most central of the unit `vectors` [n, d], n ≥ 1; stops at `limit` or within `least` of all.

    Cosines are rounded to 4 places, and ties fall to the lower number, so that no machine decides otherwise.
    """
    nearest = np.full(len(vectors), -1, np.int64)
    closest = np.full(len(vectors), -np.inf)
    at, far = int(np.round(vectors @ vectors.mean(axis=0), 4).argmax()), 1.0
    picked: dict[int, float] = {}
    while True:
        picked[at] = far
        cosines = np.round((vectors @ vectors[at]).astype(np.float64), 4)
        nearer = cosines > closest
        closest[nearer], nearest[nearer] = cosines[nearer], at
        closest[at] = np.inf
        at = int(closest.argmin())
        far = round(1 - float(closest[at]), 4)
        if len(picked) >= limit or far < least:
            return Traversal(picked, nearest, closest)
