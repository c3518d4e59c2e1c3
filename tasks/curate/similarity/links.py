"""Groups of texts that must not be torn apart: linked by a shared key or by true Jaccard similarity.

Unlike duplicates, leaks are transitive: when A is like B and B like C, a model trained on A has an advantage on C.
So groups grow by union. Texts that already belong to a side never move; a new text whose links reach both sides is
a bridge: it joins neither, and links nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.curate.similarity.greedy import _fill, _shared
from tasks.curate.similarity.jit import jit
from tasks.curate.similarity.shingles import ShingleSets, longest, room_for

# How many earlier texts of one bucket a text is compared with; as in greedy.py.
MAX_COMPARED = 512
# How many groups one text may tie together.
MAX_GROUPS = 256


class Groups(NamedTuple):
    """root[i] is the number of a text that stands for the group of text i; side[i] the side of that group, 0 for none.

    bridge[i] is (i, i) for texts that join; for a bridge, the numbers of a text of side 1 and one of side 2.
    """

    root: NDArray[np.int64]
    side: NDArray[np.int64]
    bridge: NDArray[np.int64]


@jit
def _find(parent: NDArray[np.int64], i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@jit
def _alike(
    i: int,
    other: int,
    table: NDArray[np.uint64],
    shingles: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    row: NDArray[np.int64],
    threshold: float,
) -> bool:
    if row[i] < 0 or row[other] < 0:
        return False
    mine = shingles[offsets[row[i]] : offsets[row[i] + 1]]
    theirs = shingles[offsets[row[other]] : offsets[row[other] + 1]]
    if min(len(mine), len(theirs)) < threshold * max(len(mine), len(theirs)):
        return False
    shared = _shared(table, theirs)
    return shared >= threshold * (len(mine) + len(theirs) - shared)


@jit
def _links(
    i: int,
    buckets: NDArray[np.int32],
    sure: int,
    head: NDArray[np.int64],
    following: NDArray[np.int64],
    scratch: NDArray[np.uint64],
    shingles: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    row: NDArray[np.int64],
    threshold: float,
    parent: NDArray[np.int64],
    side: NDArray[np.int64],
    roots: NDArray[np.int64],
    members: NDArray[np.int64],
) -> int:
    """Writes the groups that text i hangs together with, and a text of each that shows it; how many."""
    many = 0
    size = 0
    if row[i] >= 0:
        size = offsets[row[i] + 1] - offsets[row[i]]
    table = scratch[: room_for(size)]
    filled = False
    bands = buckets.shape[1]
    for band in range(bands):
        bucket = buckets[i, band]
        slot = head[bucket] if bucket >= 0 else -1
        compared = 0
        while slot >= 0 and many < MAX_GROUPS and compared < MAX_COMPARED:
            other = slot // bands
            slot = following[slot]
            root = _find(parent, other)
            known = False
            for k in range(many):
                # A side already reached needs no further proof.
                known = known or roots[k] == root or (side[root] > 0 and side[roots[k]] == side[root])
            if known:
                continue
            linked = band < sure
            if not linked:
                compared += 1
                if size > 0 and not filled:
                    _fill(table, shingles[offsets[row[i]] : offsets[row[i] + 1]])
                    filled = True
                linked = _alike(i, other, table, shingles, offsets, row, threshold)
            if linked:
                roots[many], members[many] = root, other
                many += 1
    return many


@jit
def _group(
    order: NDArray[np.int64],
    buckets: NDArray[np.int32],
    sure: int,
    n_buckets: int,
    shingles: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    row: NDArray[np.int64],
    threshold: float,
    parent: NDArray[np.int64],
    side: NDArray[np.int64],
    fixed: NDArray[np.bool_],
    bridge: NDArray[np.int64],
) -> None:
    n, bands = buckets.shape
    head = np.full(n_buckets, -1, np.int64)
    following = np.full(n * bands, -1, np.int64)
    scratch = np.zeros(room_for(longest(offsets)), np.uint64)
    roots, members = np.empty(MAX_GROUPS, np.int64), np.empty(MAX_GROUPS, np.int64)
    for i in order:
        many = 0
        if not fixed[i]:
            many = _links(
                i,
                buckets,
                sure,
                head,
                following,
                scratch,
                shingles,
                offsets,
                row,
                threshold,
                parent,
                side,
                roots,
                members,
            )
        one, two = -1, -1
        for k in range(many):
            if side[roots[k]] == 1 and one < 0:
                one = members[k]
            if side[roots[k]] == 2 and two < 0:
                two = members[k]
        if one >= 0 and two >= 0:
            bridge[i, 0], bridge[i, 1] = one, two
            continue
        for k in range(many):
            a, b = _find(parent, i), _find(parent, roots[k])
            parent[max(a, b)] = min(a, b)
            side[min(a, b)] = max(side[a], side[b])
        for band in range(bands):
            bucket = buckets[i, band]
            if bucket >= 0:
                following[i * bands + band] = head[bucket]
                head[bucket] = i * bands + band


def groups(
    order: NDArray[np.int64],
    sure: NDArray[np.int32],
    likely: NDArray[np.int32],
    shingles: ShingleSets,
    row: NDArray[np.int64],
    threshold: float,
    sides: NDArray[np.int64],
) -> Groups:
    """The groups of all texts.

    order: text numbers, those that have a side first. sure: [n, k] buckets that link without proof; likely: [n, m]
    buckets whose texts are compared (numbers apart from those of `sure`). row[i]: the place of text i in `shingles`,
    -1 for none. sides: 1 or 2 for texts that already belong to a side, 0 for new ones.
    """
    n = len(order)
    columns = np.concatenate([sure, likely], axis=1)
    parent, side = np.arange(n, dtype=np.int64), sides.astype(np.int64)
    bridge = np.repeat(np.arange(n, dtype=np.int64)[:, None], 2, axis=1)
    _group(
        order,
        columns,
        sure.shape[1],
        int(columns.max(initial=-1)) + 1,
        shingles.values,
        shingles.offsets,
        row,
        threshold,
        parent,
        side,
        sides > 0,
        bridge,
    )
    root = np.array([_find(parent, i) for i in range(n)], np.int64)
    return Groups(root, side[root] if n else side, bridge)
