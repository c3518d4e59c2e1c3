"""Thresholds are tried without writing anything, and sources that lose much are named."""

import random
import string

import pytest

from schemas.errors import UserError
from schemas.rows import Ruling
from schemas.trajectory import Provenance
from schemas.vocabulary import Decision
from tasks.curate.explore import common_lead, explore, source_losses
from tasks.curate.selector.near_duplicate import NearDuplicate
from tasks.curate.selector.split import Split
from tasks.curate.selector.structural import Structural
from warehouse.lake import Stamp


def text(seed, changed=0):
    rng = random.Random(seed)
    words = ["".join(rng.choices(string.ascii_lowercase, k=6)) for _ in range(100)]
    for place in range(changed):
        words[10 * place] = f"changed{place}"
    return " ".join(words)


def test_levels(fresh_bench, make):
    bench = fresh_bench
    ids = bench.add(*(make("", text(seed, changed)) for seed in range(3) for changed in (0, 1, 4)))
    selector = NearDuplicate(view="actions")
    levels = explore(bench.ctx, selector, ids, [0.9, 0.5], shown=2)
    assert [(level.threshold, level.n) for level in levels] == [(0.5, 9), (0.9, 9)]
    assert levels[0].dropped > levels[1].dropped == 3
    scores = [pair.score for pair in levels[0].pairs]
    assert len(scores) == 2
    assert scores == sorted(scores)
    assert levels[0].pairs[0].dropped_text != levels[0].pairs[0].kept_text
    assert bench.lake.sql("select * from signatures").num_rows == 0
    assert bench.lake.sql("select * from decisions").num_rows == 0
    with pytest.raises(UserError, match="no threshold"):
        explore(bench.ctx, Structural(), ids, [0.5])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no threshold"):
        explore(bench.ctx, Split(), ids, [0.5])


def test_a_pair_is_shown_around_its_first_difference(fresh_bench, make):
    bench = fresh_bench
    lead = text(1)
    ids = bench.add(*(make("", f"{lead} {last} {text(2)}") for last in ("apples", "pears")))
    (level,) = explore(bench.ctx, NearDuplicate(view="actions"), ids, [0.5], shown=1)
    (pair,) = level.pairs
    for shown, other in ((pair.dropped_text, pair.kept_text), (pair.kept_text, pair.dropped_text)):
        assert shown.startswith("…") and shown.endswith("…") and len(shown) == 402
        assert common_lead(shown, other) == 81
    assert "apples" in pair.dropped_text + pair.kept_text and "pears" in pair.dropped_text + pair.kept_text


def test_sources_that_lose_much(fresh_bench, make):
    bench = fresh_bench
    ids = bench.add(
        *(make("q", f"a{n}", provenance=Provenance(dataset="big" if n < 4 else "small"), sample=n) for n in range(6))
    )
    rulings = [
        Ruling(
            id=f"r{n}",
            item_id=f"item{n}",
            stage="curate",
            decision=Decision.DROP if n in (0, 4, 5) else Decision.KEEP,
            reason="cut",
            parents=(ref,),
        )
        for n, ref in enumerate(ids)
    ]
    bench.lake.append(Stamp("run", "structural", "print"), {"decisions": rulings})
    found = source_losses(bench.ctx, ["print"], most=0.2)
    assert [(one.dataset, one.n, one.dropped, one.reason) for one in found] == [
        ("small", 2, 2, "cut"),
        ("big", 4, 1, "cut"),
    ]
    assert [one.dataset for one in source_losses(bench.ctx, ["print"], most=0.5)] == ["small"]
    assert source_losses(bench.ctx, ["other"], most=0.0) == []
