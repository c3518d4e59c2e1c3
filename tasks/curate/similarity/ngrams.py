"""Which n-grams of given rows occur in a text: an index over the rows, asked with the text's own n-grams.

An n-gram that many rows share is their boilerplate ("Answer the following question …") and not evidence that one
of them leaked: it is left out of the index, and out of the rows' counts. Punctuation does not count.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.curate.similarity.jit import jit
from tasks.curate.similarity.shingles import longest, shingle_sets_of, shingles_of, words_of
from tasks.curate.similarity.text import pack
from tasks.curate.similarity.words import without_signs


class Hit(NamedTuple):
    """Row `row` shares `shared` distinct n-grams with the text, the first at word `place` of the text.

    score: the share of the row's n-grams that occur in the text, from 0 to 1.
    """

    row: int
    shared: int
    score: float
    place: int


class NgramIndex:
    """An index of rows by their word n-grams.

    common: an n-gram in at least so many rows is boilerplate (0: none is). `row_sizes` are the rows' counts of
    n-grams that remain; a row of 0 can never be hit.
    """

    def __init__(self, rows: Sequence[str], n: int, common: int) -> None:
        self.n = n
        sets = shingle_sets_of([without_signs(row) for row in rows], n)
        owners = np.repeat(np.arange(len(rows)), np.diff(sets.offsets))
        order = np.argsort(sets.values, kind="stable")
        grams, owners = sets.values[order], owners[order]
        self.grams, starts, counts = np.unique(grams, return_index=True, return_counts=True)
        rare = counts < common if common else np.ones(len(counts), np.bool_)
        self.grams, starts, counts = self.grams[rare], starts[rare], counts[rare]
        self._owners = owners
        self._starts, self._counts = starts, counts
        self.row_sizes = np.bincount(owners[_ranges(starts, counts)], minlength=len(rows))
        self.boilerplate = int((~rare).sum())

    def hits(self, texts: Sequence[str]) -> list[list[Hit]]:
        """For each text the rows that it shares n-grams with, the highest score first, then the smaller row."""
        packed = pack(without_signs(text) for text in texts)
        room = int(np.diff(packed.offsets).sum()) + 1
        found, places, of = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
        count = _lookup(packed.buffer, packed.offsets, self.n, self.grams, found, places, of)
        result: list[list[Hit]] = [[] for _ in texts]
        ends = np.searchsorted(of[:count], np.arange(len(texts) + 1))
        for number in np.unique(of[:count]).tolist():
            one = slice(ends[number], ends[number + 1])
            result[number] = self._of_text(found[one], places[one])
        return result

    def _of_text(self, grams: NDArray[np.int64], places: NDArray[np.int64]) -> list[Hit]:
        distinct, first = np.unique(grams, return_index=True)
        rows = self._owners[_ranges(self._starts[distinct], self._counts[distinct])]
        at = np.repeat(places[first], self._counts[distinct])
        order = np.lexsort((at, rows))
        numbers, starts, shared = np.unique(rows[order], return_index=True, return_counts=True)
        scores = shared / self.row_sizes[numbers]
        hits = [
            Hit(row, many, score, place)
            for row, many, score, place in zip(
                numbers.tolist(), shared.tolist(), scores.tolist(), at[order][starts].tolist(), strict=True
            )
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.row))


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers starts[i] … starts[i] + counts[i] - 1 for all i, one after another."""
    ends = np.cumsum(counts)
    shifts: NDArray[np.int64] = np.repeat(starts - (ends - counts), counts)
    return np.arange(len(shifts), dtype=np.int64) + shifts


@jit
def _lookup(
    buffer: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    n: int,
    grams: NDArray[np.uint64],
    found: NDArray[np.int64],
    places: NDArray[np.int64],
    of: NDArray[np.int64],
) -> int:
    """Writes number in `grams` (sorted), word place and text of every n-gram that is known; how many."""
    room = longest(offsets) + 1
    words, shingles = np.empty(room, np.uint64), np.empty(room, np.uint64)
    count = 0
    for i in range(len(offsets) - 1):
        many = shingles_of(words, words_of(buffer, offsets[i], offsets[i + 1], words), n, shingles)
        for k in range(many):
            gram = shingles[k] if shingles[k] != 0 else np.uint64(1)
            at = np.searchsorted(grams, gram)
            if at < len(grams) and grams[at] == gram:
                found[count], places[count], of[count] = at, k, i
                count += 1
    return count
