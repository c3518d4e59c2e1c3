"""Which texts to drop as near-duplicates: greedy, by evidence, every drop against a kept text.

Texts are visited from the one most worth keeping to the least. A text is dropped when a text that is already
kept has a true Jaccard similarity of at least the threshold with it, computed on the distinct shingles; the most
similar one is the evidence. So nothing is dropped by transitive closure (A like B, B like C, A unlike C), the
work is linear in what is kept and never quadratic in a cluster, and the decisions depend on the texts and their
rank alone. A text without shingles, being shorter than the window, matches identical texts only.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.curate.similarity.jit import jit
from tasks.curate.similarity.shingles import ShingleSets, longest, room_for

# How many kept texts of one bucket a text is compared with. Only templates and guarded groups reach it, since
# other kept texts of a bucket are rarely alike; identical texts have a bucket of their own.
MAX_KEPT_PER_BUCKET = 512
_ONE = np.uint64(1)
EXACT, TEMPLATE, VALUES, PROMPT_TEMPLATE, PROMPT_VALUES = range(5)
TASK, TEACHER = range(2)


class Features(NamedTuple):
    """Per text, what is compared beside shingles.

    hashes: [n, 5], the columns EXACT (equal means identical), TEMPLATE and VALUES of the text (see `shingles.py`),
    TEMPLATE and VALUES of its prompt. codes: [n, 2], TASK and TEACHER; -1 is unknown.
    """

    hashes: NDArray[np.uint64]
    codes: NDArray[np.int64]


class Guards(NamedTuple):
    """Which pairs are no duplicates however similar they are.

    templates: equal template, other values, of the whole text or of the prompt. across_tasks: False compares
    within a task only. same_task: 0 compares a task's texts, 1 spares those of other teachers, 2 spares all.
    """

    templates: bool = True
    across_tasks: bool = True
    same_task: int = 0


class Matches(NamedTuple):
    """kept[i] is the number of the kept text that text i is dropped for, -1 when i is kept; `jaccard` theirs.

    spared[i] is the number of a kept text that i resembles without being a duplicate, by a guard, or -1.
    """

    kept: NDArray[np.int64]
    jaccard: NDArray[np.float64]
    spared: NDArray[np.int64]


@jit
def _apart(
    hashes: NDArray[np.uint64], codes: NDArray[np.int64], a: int, b: int, short: bool, guards: tuple[bool, bool, int]
) -> bool:
    templates, across_tasks, spare = guards
    same_task = codes[a, TASK] == codes[b, TASK]
    if not same_task and (short or not across_tasks):
        return True
    in_group = same_task and codes[a, TASK] >= 0
    if in_group and (spare == 2 or (spare == 1 and codes[a, TEACHER] != codes[b, TEACHER])):
        return True
    if templates:
        if hashes[a, TEMPLATE] == hashes[b, TEMPLATE] and hashes[a, VALUES] != hashes[b, VALUES]:
            return True
        if hashes[a, PROMPT_TEMPLATE] == hashes[b, PROMPT_TEMPLATE]:
            return bool(hashes[a, PROMPT_VALUES] != hashes[b, PROMPT_VALUES])
    return False


@jit
def _fill(table: NDArray[np.uint64], shingles: NDArray[np.uint64]) -> None:
    table[:] = 0
    mask = np.uint64(len(table) - 1)
    for shingle in shingles:
        place = shingle & mask
        while table[place] != 0:
            place = (place + _ONE) & mask
        table[place] = shingle


@jit
def _shared(table: NDArray[np.uint64], shingles: NDArray[np.uint64]) -> int:
    mask = np.uint64(len(table) - 1)
    count = 0
    for shingle in shingles:
        place = shingle & mask
        while table[place] != 0 and table[place] != shingle:
            place = (place + _ONE) & mask
        if table[place] != 0:
            count += 1
    return count


@jit
def _best(
    i: int,
    mine: NDArray[np.uint64],
    table: NDArray[np.uint64],
    buckets: NDArray[np.int32],
    head: NDArray[np.int64],
    following: NDArray[np.int64],
    seen: NDArray[np.int64],
    shingles: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    row: NDArray[np.int64],
    threshold: float,
    hashes: NDArray[np.uint64],
    codes: NDArray[np.int64],
    guards: tuple[bool, bool, int],
) -> tuple[float, int, int]:
    """The most similar kept text of text i (similarity, number or -1), and one that a guard spared it for (or -1)."""
    bands = buckets.shape[1]
    filled = False
    best, best_at, spared = 0.0, -1, -1
    for band in range(bands):
        bucket = buckets[i, band]
        slot = head[bucket] if bucket >= 0 else -1
        while slot >= 0:
            other = slot // bands
            slot = following[slot]
            if seen[other] == i:
                continue
            seen[other] = i
            similarity = 1.0
            if hashes[i, EXACT] != hashes[other, EXACT]:
                if row[other] < 0 or len(mine) == 0:
                    continue
                theirs = shingles[offsets[row[other]] : offsets[row[other] + 1]]
                fewer, more = min(len(mine), len(theirs)), max(len(mine), len(theirs))
                if fewer < threshold * more or fewer < best * more:
                    continue
                if not filled:
                    _fill(table, mine)
                    filled = True
                shared = _shared(table, theirs)
                similarity = shared / (fewer + more - shared)
            if similarity < threshold:
                continue
            if _apart(hashes, codes, i, other, len(mine) == 0, guards):
                spared = other if spared < 0 else spared
            elif similarity > best:
                best, best_at = similarity, other
    return best, best_at, spared


@jit
def _greedy(
    rank: NDArray[np.int64],
    buckets: NDArray[np.int32],
    n_buckets: int,
    shingles: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    row: NDArray[np.int64],
    threshold: float,
    hashes: NDArray[np.uint64],
    codes: NDArray[np.int64],
    guards: tuple[bool, bool, int],
    kept: NDArray[np.int64],
    jaccard: NDArray[np.float64],
    spared: NDArray[np.int64],
) -> None:
    n, bands = buckets.shape
    # A bucket's kept texts form a chain over slots; slot i * bands + band belongs to text i.
    head, tail = np.full(n_buckets, -1, np.int64), np.full(n_buckets, -1, np.int64)
    size = np.zeros(n_buckets, np.int32)
    following = np.full(n * bands, -1, np.int64)
    seen = np.full(n, -1, np.int64)
    scratch = np.zeros(room_for(longest(offsets)), np.uint64)
    for i in rank:
        mine = shingles[:0]
        if row[i] >= 0:
            mine = shingles[offsets[row[i]] : offsets[row[i] + 1]]
        # A table that fits the text stays in the nearest cache.
        table = scratch[: room_for(len(mine))]
        jaccard[i], kept[i], spared[i] = _best(
            i, mine, table, buckets, head, following, seen, shingles, offsets, row, threshold, hashes, codes, guards
        )
        for band in range(bands):
            bucket = buckets[i, band]
            if kept[i] < 0 and bucket >= 0 and size[bucket] < MAX_KEPT_PER_BUCKET:
                slot = i * bands + band
                if size[bucket] == 0:
                    head[bucket] = slot
                else:
                    following[tail[bucket]] = slot
                tail[bucket] = slot
                size[bucket] += 1


def greedy(
    rank: NDArray[np.int64],
    buckets: NDArray[np.int32],
    shingles: ShingleSets,
    row: NDArray[np.int64],
    threshold: float,
    features: Features,
    guards: Guards,
) -> Matches:
    """The decisions over all texts.

    rank: text numbers, the one most worth keeping first. buckets: [n, bands], see `sketch.buckets`. row[i]: the
    place of text i in `shingles`, -1 for a text without any.
    """
    n = len(rank)
    kept, jaccard = np.full(n, -1, np.int64), np.zeros(n, np.float64)
    spared = np.full(n, -1, np.int64)
    n_buckets = int(buckets.max(initial=-1)) + 1
    _greedy(
        rank,
        buckets,
        n_buckets,
        shingles.values,
        shingles.offsets,
        row,
        threshold,
        features.hashes,
        features.codes,
        (guards.templates, guards.across_tasks, guards.same_task),
        kept,
        jaccard,
        spared,
    )
    return Matches(kept, jaccard, spared)
