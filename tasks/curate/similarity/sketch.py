"""MinHash sketches: 128 values of 16 bits a text, and the banding that finds candidates.

The sketch is one-permutation hashing that refills empty bins by further rounds of hashing (fast similarity
sketching, Dahlgaard, Knudsen and Thorup, FOCS 2017): every bin matches with probability exactly the Jaccard
similarity, independently enough for banding, at about k ln k hashes a text instead of k times its length. That
holds for texts of ten shingles as for texts of ten thousand.

A band is a run of `rows` bins; two texts are candidates when one band agrees. `choose_bands` takes the number of
rows from the target threshold. Candidates are only ever a reason to look: `greedy.py` verifies them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.curate.similarity.jit import jit
from tasks.curate.similarity.shingles import Profile, longest, mix, shingles_of, whole_hashes, words_of
from tasks.curate.similarity.text import Packed

BINS = 128
# Share of pairs exactly at the threshold that banding must find.
TARGET_RECALL = 0.995
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_SALT = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(57)
_LOW57 = np.uint64((1 << 57) - 1)
_LOW16 = np.uint64(0xFFFF)
_ONE = np.uint64(1)
# Rounds before a bin that is still empty gets a hash of its own; 226 shingles need about four.
_ROUNDS = 16


class Bands(NamedTuple):
    """`bands` bands of `rows` bins each."""

    bands: int
    rows: int


def choose_bands(threshold: float, recall: float = TARGET_RECALL) -> Bands:
    """The most selective banding that still finds the share `recall` of pairs exactly at `threshold`."""
    for rows in range(BINS, 0, -1):
        bands = BINS // rows
        if 1 - (1 - threshold**rows) ** bands >= recall:
            return Bands(bands, rows)
    return Bands(BINS, 1)


@jit
def sketch_one(shingles: NDArray[np.uint64], n: int, lowest: NDArray[np.uint64], out: NDArray[np.uint16]) -> None:
    """Writes the sketch of `n` shingles (n ≥ 1, repeats do no harm); `lowest` is scratch of BINS values."""
    lowest[:] = _EMPTY
    for turn in range(_ROUNDS):
        # The round stands in the highest bits, so that a bin filled in an earlier round is never overwritten.
        high = np.uint64(turn) << _SHIFT
        salt = np.uint64(turn) * _SALT
        for i in range(n):
            h = shingles[i]
            if turn > 0:
                h = mix(h ^ salt)
            place = h >> _SHIFT
            key = high | (h & _LOW57)
            lowest[place] = min(lowest[place], key)
        empty = 0
        for b in range(BINS):
            if lowest[b] == _EMPTY:
                empty += 1
        if empty == 0:
            break
    for b in range(BINS):
        if lowest[b] == _EMPTY:
            salt = np.uint64(_ROUNDS + b) * _SALT
            for i in range(n):
                lowest[b] = min(lowest[b], mix(shingles[i] ^ salt))
        out[b] = np.uint16(mix(lowest[b]) & _LOW16)


@jit
def _sketch(
    buffer: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    window: int,
    counts: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    sketches: NDArray[np.uint16],
    kept: NDArray[np.uint64],
) -> int:
    """`kept` takes the shingles of all texts, one after another, unless it is empty; how many there are."""
    room = longest(offsets) + 1
    words = np.empty(room, np.uint64)
    scratch = np.empty(room, np.uint64)
    lowest = np.empty(BINS, np.uint64)
    total = 0
    for i in range(len(offsets) - 1):
        n = words_of(buffer, offsets[i], offsets[i + 1], words)
        counts[0, i] = n
        hashes[0, i], hashes[1, i], hashes[2, i] = whole_hashes(words, n)
        shingles = kept[total:] if len(kept) > 0 else scratch
        n = shingles_of(words, n, window, shingles)
        counts[1, i] = n
        total += n
        if n > 0:
            sketch_one(shingles, n, lowest, sketches[i])
    return total


class Sketched(NamedTuple):
    """The profile of all texts, their sketches [n, BINS], and all their shingles where those were asked for.

    A text shorter than the window has a zero sketch.
    """

    profile: Profile
    sketches: NDArray[np.uint16]
    shingles: NDArray[np.uint64]


def sketch(texts: Packed, window: int, *, keep: bool = False) -> Sketched:
    """Sketches all texts. keep: give their shingles too, text after text, repeats included (8 bytes a word)."""
    counts = np.zeros((2, texts.n), np.int64)
    hashes = np.zeros((3, texts.n), np.uint64)
    sketches = np.zeros((texts.n, BINS), np.uint16)
    # A text has at most one shingle a byte; pages that are never written take no memory.
    kept = np.empty(len(texts.buffer) if keep else 0, np.uint64)
    total = _sketch(texts.buffer, texts.offsets, window, counts, hashes, sketches, kept)
    return Sketched(Profile(counts[0], counts[1], hashes[0], hashes[1], hashes[2]), sketches, kept[:total])


@jit
def _buckets(
    sketches: NDArray[np.uint16],
    has: NDArray[np.bool_],
    bands: int,
    rows: int,
    keys: NDArray[np.uint64],
    firsts: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """One open-addressing table a band, from a band's hash to its first text; a bucket opens with the second."""
    mask = np.uint64(len(keys) - 1)
    opened = 0
    for band in range(bands):
        firsts[:] = -1
        for i in range(len(sketches)):
            if not has[i]:
                continue
            h = np.uint64(band)
            for r in range(rows):
                h = (h ^ np.uint64(sketches[i, band * rows + r])) * _SALT
            h = mix(h)
            slot = h & mask
            while firsts[slot] >= 0 and keys[slot] != h:
                slot = (slot + _ONE) & mask
            first = firsts[slot]
            if first < 0:
                firsts[slot] = i
                keys[slot] = h
                continue
            if out[first, band] < 0:
                out[first, band] = opened
                opened += 1
            out[i, band] = out[first, band]
    return opened


class Buckets(NamedTuple):
    """`of[i, band]` is the bucket of text i in that band, or -1 where no other text shares it."""

    of: NDArray[np.int32]
    n: int


def buckets(sketches: NDArray[np.uint16], has: NDArray[np.bool_], banding: Bands) -> Buckets:
    """Which texts share a band; texts without shingles (`has` false) share none."""
    size = 64
    while size < 2 * len(sketches):
        size *= 2
    of = np.full((len(sketches), banding.bands), -1, np.int32)
    keys, firsts = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
    return Buckets(of, _buckets(sketches, has, banding.bands, banding.rows, keys, firsts, of))


def exact_buckets(exact: NDArray[np.uint64], first: int) -> NDArray[np.int32]:
    """One bucket for each hash that several texts share, numbered from `first`; -1 for a text of its own."""
    _, inverse, counts = np.unique(exact, return_inverse=True, return_counts=True)
    shared = counts > 1
    number = np.where(shared, np.cumsum(shared) - 1 + first, -1)
    return number[inverse].astype(np.int32)
