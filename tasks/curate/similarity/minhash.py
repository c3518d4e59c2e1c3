"""Near-duplicates end to end: sketch, bucket, collect the candidates' shingles, decide.

`near_duplicates` does it for texts in memory. The selector of the same name keeps the sketches in the lake and
calls `decide` with a reader of the few texts that share a bucket.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.ids import digest
from tasks.curate.similarity.greedy import Features, Guards, Matches, greedy
from tasks.curate.similarity.shingles import Profile, ShingleSets, picked_sets, shingle_sets
from tasks.curate.similarity.sketch import Bands, buckets, choose_bands, exact_buckets, sketch
from tasks.curate.similarity.text import pack

WINDOW = 5
# Up to so much text the shingles are kept from the first pass, which takes at most twice to eight times its size.
KEEP_BYTES = 256 << 20
ALL_GUARDS, NO_GUARDS = Guards(), Guards(templates=False)


def exact_hashes(texts: Sequence[str], profile: Profile) -> NDArray[np.uint64]:
    """Equal means identical: word by word where there are shingles, byte by byte for shorter texts."""
    exact = profile.exact.copy()
    for i in np.flatnonzero(profile.n_shingles == 0).tolist():
        exact[i] = int(digest(texts[i])[:16], 16)
    return exact


def decide(
    sketches: NDArray[np.uint16],
    n_shingles: NDArray[np.int64],
    features: Features,
    rank: NDArray[np.int64],
    threshold: float,
    collect: Callable[[NDArray[np.int64]], ShingleSets],
    guards: Guards = ALL_GUARDS,
    banding: Bands | None = None,
) -> Matches:
    """The decisions over sketched texts; `collect` gives the shingles of those that share a bucket with another."""
    found = buckets(sketches, n_shingles > 0, banding or choose_bands(threshold))
    candidates = np.flatnonzero((found.of >= 0).any(axis=1))
    row = np.full(len(sketches), -1, np.int64)
    row[candidates] = np.arange(len(candidates))
    # Identical texts meet in a bucket of their own, so that no crowded band can hide one from another.
    same = exact_buckets(features.hashes[:, 0], found.n)
    columns = np.concatenate([same[:, None], found.of], axis=1)
    return greedy(rank, columns, collect(candidates), row, threshold, features, guards)


def near_duplicates(
    texts: Sequence[str],
    threshold: float = 0.8,
    window: int = WINDOW,
    rank: NDArray[np.int64] | None = None,
    guards: Guards = NO_GUARDS,
) -> Matches:
    """Near-duplicates among texts in memory; earlier texts are kept unless `rank` says otherwise."""
    packed = pack(texts)
    small = len(packed.buffer) <= KEEP_BYTES
    profile, sketches, shingles = sketch(packed, window, keep=small)
    n = len(texts)
    hashes = np.zeros((n, 5), np.uint64)
    hashes[:, 0] = exact_hashes(texts, profile)
    hashes[:, 1], hashes[:, 2] = profile.template, profile.values
    features = Features(hashes, np.full((n, 2), -1, np.int64))

    def collect(which: NDArray[np.int64]) -> ShingleSets:
        if small:
            return picked_sets(shingles, which, profile.n_shingles)
        return shingle_sets(packed, which, profile.n_shingles[which], window)

    order = np.arange(n, dtype=np.int64) if rank is None else rank
    return decide(sketches, profile.n_shingles, features, order, threshold, collect, guards)
