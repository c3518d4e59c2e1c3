"""How often a record came before, for millions of them: 12 bytes a distinct record; a set of Python takes 80."""

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
_Run = tuple[Keys, npt.NDArray[np.uint32]]


class Seen:
    """Counts keys block by block: sorted runs of (key, count), each at most half its forerunner, so there are few."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def before(self, keys: Keys) -> Counts:
        """For each key of the next block, how often it came before, in this block and all earlier ones."""
        own, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        earlier = np.zeros(len(own), np.int64)
        for held, times in self._runs:
            at = np.minimum(np.searchsorted(held, own), len(held) - 1)
            earlier += np.where(held[at] == own, times[at], 0)
        order = np.argsort(keys, kind="stable")
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._add((own, counts.astype(np.uint32)))
        return np.asarray(earlier[inverse] + rank)

    def _add(self, run: _Run) -> None:
        if not len(run[0]):
            return
        self._runs.append(run)
        while len(self._runs) > 1 and len(self._runs[-1][0]) * 2 > len(self._runs[-2][0]):
            self._runs[-2:] = [_merged(*self._runs[-2:])]


def _merged(one: _Run, other: _Run) -> _Run:
    keys = np.concatenate([one[0], other[0]])
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], np.concatenate([one[1], other[1]])[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.add.reduceat(counts, first, dtype=np.uint32)
