"""What stands in a longer text goes, with the true share as evidence; what merely shares phrases stays."""

import random
import string

import pytest

from schemas.vocabulary import Decision, VerdictKind
from tasks.curate.selector.containment import Containment


def text(seed, n):
    rng = random.Random(seed)
    return ["".join(rng.choices(string.ascii_lowercase, k=6)) for _ in range(n)]


def test_contained_texts_go(bench, make):
    long = text(1, 900)
    inside, changed = long[300:400], [*long[500:560], *text(2, 40)]
    nearly = list(long[600:700])
    nearly[50] = "changed"
    plans = [long, inside, changed, nearly, text(3, 100), long[:10]]
    ids = bench.add(*(make("", " ".join(one)) for one in plans))
    outcomes = bench.select(Containment(), ids)
    dropped = [n for n, ref in enumerate(ids) if outcomes[ref].decision is Decision.DROP]
    assert dropped == [1, 3]
    assert outcomes[ids[1]].evidence == {"kept": ids[0], "share": 1.0}
    assert outcomes[ids[3]].score == pytest.approx(91 / 96)
    assert bench.kept(Containment(threshold=0.97), ids) == [*ids[:1], *ids[2:]]
    assert bench.select(Containment(), ids[::-1], store=False) == {ref: outcomes[ref] for ref in ids[::-1]}


def test_guards(bench, make):
    long = text(1, 300)
    ids = bench.add(
        make("q", " ".join(long), task="a", teacher="x"),
        make("q", " ".join(long[:150]), task="a", teacher="y"),
        make("q", " ".join(long[100:250]), task="b", teacher="x"),
    )
    assert bench.kept(Containment(), ids) == ids[:2]
    assert bench.kept(Containment(across_tasks=False), ids) == ids
    assert bench.kept(Containment(same_task="compare"), ids) == ids[:1]
    bench.judge(ids[0], VerdictKind.FAIL, 0.0)
    bench.judge(ids[2], VerdictKind.PASS, 1.0)
    assert bench.kept(Containment(), ids) == ids
