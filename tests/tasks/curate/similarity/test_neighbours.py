"""The first pass marks what has a neighbour: exactly for small sets, nearly so by index."""

import numpy as np
import pytest

from tasks.curate.similarity.cosine import greedy_cosine
from tasks.curate.similarity.neighbours import with_neighbour


def vectors(n, d, seed):
    made = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    made[1::10] = made[::10][: len(made[1::10])] + 0.1 * made[1::10]
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def test_exact_is_all_pairs():
    some = vectors(2500, 16, 0)
    cosines = some @ some.T
    np.fill_diagonal(cosines, -1)
    assert (with_neighbour(some, 0.8) == (cosines >= 0.8).any(axis=1)).all()


def test_the_index_agrees():
    pytest.importorskip("usearch")
    some = vectors(2000, 64, 1)
    exact, found = with_neighbour(some, 0.9), with_neighbour(some, 0.9, exact_up_to=0)
    assert exact.sum() >= 400
    assert not (found & ~exact).any()
    assert (found & exact).sum() >= 0.97 * exact.sum()
    assert (with_neighbour(some, 0.9, exact_up_to=0) == found).all()


def test_greedy_agrees_with_all_pairs():
    some = vectors(1500, 16, 2)
    rank = np.random.default_rng(0).permutation(1500)
    found = greedy_cosine(some, rank, 0.8, lambda a, b: (a + b) % 7 == 0)
    kept: list[int] = []
    for i in rank.tolist():
        near = [j for j in kept if round(float(some[i] @ some[j]), 4) >= 0.8 and (i + j) % 7]
        assert (found.kept[i] >= 0) == bool(near)
        if near:
            assert found.kept[i] in near
        else:
            kept.append(i)
