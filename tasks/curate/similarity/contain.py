"""Which texts may be contained in which: by samples of their shingles, whatever their lengths.

MinHash finds texts of like size; a short text inside a long one has a low Jaccard similarity. So a fixed share of
all possible shingles is sampled by hash (FracMinHash, Irber et al. 2022): what is contained in a text is contained
in its sample too. Samples that very many texts share are boilerplate and find nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.curate.similarity.jit import jit
from tasks.curate.similarity.shingles import ShingleSets

RATE = 8
# A sampled shingle in more texts than this names no particular pair.
MAX_TEXTS = 200


class Candidates(NamedTuple):
    """Pairs of numbers: text `inner` may be contained in `outer`."""

    inner: NDArray[np.int64]
    outer: NDArray[np.int64]


def sampled(sets: ShingleSets) -> list[NDArray[np.uint64]]:
    """The sample of each text, sorted."""
    picks = []
    for start, end in zip(sets.offsets[:-1].tolist(), sets.offsets[1:].tolist(), strict=True):
        values = sets.values[start:end]
        picks.append(np.sort(values[values % RATE == 0]))
    return picks


def candidates(samples: ShingleSets, sizes: NDArray[np.int64], threshold: float) -> Candidates:
    """Pairs whose samples say that at least about `threshold` of the inner text is in the outer one.

    sizes: distinct shingles of each text; of two texts the one with fewer (then the higher number) is the inner one.
    A sample of m shingles is off by about √(t (1 − t) / m): pairs within 3 of those below the threshold count.
    """
    n = len(samples.offsets) - 1
    owners = np.repeat(np.arange(n), np.diff(samples.offsets))
    order = np.argsort(samples.values, kind="stable")
    _, starts, counts = np.unique(samples.values[order], return_index=True, return_counts=True)
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(starts)), counts)
    ends = starts + counts
    found = _pairs(samples.offsets, group, starts, ends, owners[order], sizes, threshold)
    return Candidates(found[:, 0], found[:, 1])


@jit
def _pairs(
    offsets: NDArray[np.int64],
    group: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    owners: NDArray[np.int64],
    sizes: NDArray[np.int64],
    threshold: float,
) -> NDArray[np.int64]:
    n = len(offsets) - 1
    shared = np.zeros(n, np.int64)
    touched = np.empty(n, np.int64)
    room = 1024
    found = np.empty((room, 2), np.int64)
    total = 0
    for i in range(n):
        many = 0
        usable = 0
        for k in range(offsets[i], offsets[i + 1]):
            g = group[k]
            if ends[g] - starts[g] > MAX_TEXTS:
                continue
            usable += 1
            for at in range(starts[g], ends[g]):
                other = owners[at]
                if other == i or sizes[other] < sizes[i] or (sizes[other] == sizes[i] and other > i):
                    continue
                if shared[other] == 0:
                    touched[many] = other
                    many += 1
                shared[other] += 1
        slack = 3 * np.sqrt(threshold * (1 - threshold) / max(1, usable))
        for k in range(many):
            other = touched[k]
            if shared[other] >= (threshold - slack) * usable:
                if total == room:
                    grown = np.empty((2 * room, 2), np.int64)
                    grown[:room] = found
                    found, room = grown, 2 * room
                found[total, 0], found[total, 1] = i, other
                total += 1
            shared[other] = 0
    return found[:total]
