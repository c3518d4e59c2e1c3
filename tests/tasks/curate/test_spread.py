"""Partitions in this process or on Ray: the same code, the same signatures, the same decisions."""

import os
import random
from pathlib import Path

import pytest

from schemas.errors import LakeError
from schemas.vocabulary import Decision
from tasks.curate.selector.containment import Containment
from tasks.curate.selector.exact import Exact
from tasks.curate.selector.near_duplicate import NearDuplicate
from tasks.curate.spread import PARTITION, spread


def texts(count):
    """Texts of which every fifth copies and every fifth edits an earlier one."""
    rng = random.Random(7)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 8))) for _ in range(5000)]
    made = []
    for number in range(count):
        what = number % 5 if number > 10 else 0
        text = rng.choices(words, k=60) if what < 3 else list(rng.choice(made))
        if what == 4:
            text[rng.randrange(60)] = "edited"
        made.append(text)
    return [" ".join(text) for text in made]


def test_partitions_come_in_order_and_whole(bench, make):
    ids = bench.add(*(make("", f"text {n}") for n in range(7)))
    found = list(spread(bench.lake, ids, lambda some: [one.id for one in some], size=3))
    assert [(list(given), made) for given, made in found] == [
        (ids[:3], ids[:3]),
        (ids[3:6], ids[3:6]),
        (ids[6:], ids[6:]),
    ]
    assert list(spread(bench.lake, [], len)) == []
    with pytest.raises(LakeError, match="1 of 7 ids"):
        list(spread(bench.lake, [*ids[:6], "f" * 32], len))


@pytest.mark.slow
def test_on_ray_as_on_one_machine(new_bench, make, monkeypatch):
    ray = pytest.importorskip("ray", reason="pip install --no-deps -r requirements-ray.lock")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Workers import what this process imports.
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    made = [make("", text, sample=n) for n, text in enumerate(texts(2 * PARTITION + 100))]
    selectors = (Exact(), NearDuplicate(view="actions"), Containment())
    with new_bench() as here, new_bench() as there:
        ids = here.add(*made)
        assert there.add(*made) == ids
        alone = [here.select(selector, ids) for selector in selectors]
        ray.init(num_cpus=2, include_dashboard=False, logging_level="error", object_store_memory=200 << 20)
        try:
            pids = [made for _, made in spread(there.lake, ids, lambda _: os.getpid())]
            assert len(pids) == 3 and os.getpid() not in pids
            on_ray = [there.select(selector, ids) for selector in selectors]
            with pytest.raises(LakeError, match="1 of 2048 ids"):
                list(spread(there.lake, [*ids[:2047], "f" * 32, *ids[2048:]], len))
        finally:
            ray.shutdown()
        dropped = [sum(one.decision is Decision.DROP for one in found.values()) for found in on_ray]
        assert min(dropped) > 800
        assert on_ray == alone
        query = 'select item_id, kind, text_hash, "values" from signatures order by all'
        assert there.lake.sql(query).equals(here.lake.sql(query))
