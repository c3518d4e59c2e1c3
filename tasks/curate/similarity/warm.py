"""Compiles the kernels once, into numba's cache on disk, so that the first run does not wait for it (about 15 s)."""


def warm() -> None:
    """Runs every kernel that the common selectors use on a few words."""
    import numpy as np

    from tasks.curate.similarity.contain import candidates, sampled
    from tasks.curate.similarity.links import groups
    from tasks.curate.similarity.minhash import near_duplicates
    from tasks.curate.similarity.ngrams import NgramIndex
    from tasks.curate.similarity.shingles import ShingleSets, joined, profile, shingle_sets_of
    from tasks.curate.similarity.sketch import sketch
    from tasks.curate.similarity.text import pack

    texts = ["one two three four five six", "one two three four five six", "a text of other words than those"]
    near_duplicates(texts)
    profile(pack(texts), 5)
    sketch(pack(texts), 5)
    NgramIndex(texts, 3, 2).hits(texts)
    sets = joined([shingle_sets_of(texts, 2)])
    samples = sampled(sets)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in samples])]).astype(np.int64)
    candidates(ShingleSets(np.concatenate(samples), offsets), np.diff(sets.offsets), 0.9)
    every = np.arange(len(texts), dtype=np.int64)
    apart = np.full((len(texts), 1), -1, np.int32)
    groups(every, apart, apart, sets, every, 0.8, np.zeros(len(texts), np.int64))
