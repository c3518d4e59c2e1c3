"""No group spans both sides, sides never change, and what would tie them together goes."""

import random
import string

from schemas.vocabulary import Decision
from tasks.curate.selector.split import Split


def text(seed, n=80):
    rng = random.Random(seed)
    return ["".join(rng.choices(string.ascii_lowercase, k=6)) for _ in range(n)]


def near(words, seed):
    changed = list(words)
    changed[random.Random(seed).randrange(len(words))] = f"changed{seed}"
    return changed


def sides(outcomes, ids):
    return [outcomes[ref].reason for ref in ids]


BOTH = Split(part="all", held_out=0.5)


def test_groups_stay_together_and_both_sides_fill(bench, make):
    groups = []
    for seed in range(12):
        words = text(seed)
        texts = [words, near(words, 1), near(near(words, 1), 2)]
        groups.append(bench.add(*(make("", " ".join(one), sample=n) for n, one in enumerate(texts))))
    same_task = bench.add(*(make("q", " ".join(text(100 + n)), task="t", sample=n) for n in range(4)))
    every = [ref for group in (*groups, same_task) for ref in group]
    outcomes = bench.select(BOTH, every)
    for group in (*groups, same_task):
        assert len(set(sides(outcomes, group))) == 1
    assert set(sides(outcomes, every)) == {"train", "held_out"}
    train = bench.kept(Split(held_out=0.5), every)
    held = bench.kept(Split(held_out=0.5, part="held_out"), every)
    assert sorted(train + held) == sorted(every)
    assert [ref for ref in every if outcomes[ref].reason == "train"] == train


def test_sides_never_move_and_bridges_go(bench, make):
    first = bench.add(*(make("", " ".join(text(seed, 200))) for seed in (1, 2, 3, 4, 5, 6)))
    before = bench.select(BOTH, first)
    names = dict(zip((1, 2, 3, 4, 5, 6), sides(before, first), strict=True))
    one = next(seed for seed, name in names.items() if name == "train")
    two = next(seed for seed, name in names.items() if name == "held_out")
    a, b = text(one, 200), text(two, 200)
    # The bridge shares about half of its shingles with either side: enough at .3.
    low = Split(part="all", held_out=0.5, threshold=0.3)
    (bridge,) = bench.add(make("", " ".join(a[:130] + b[:130])))
    (joins,) = bench.add(make("", " ".join(near(b, 9))))
    after = bench.select(low, [bridge, joins, *first])
    assert sides(after, first) == sides(before, first)
    assert after[joins].reason == "held_out"
    assert after[bridge].decision is Decision.DROP
    assert after[bridge].reason == "split_bridge"
    at = {seed: first[seed - 1] for seed in names}
    assert after[bridge].evidence == {"train": at[one], "held_out": at[two]}
    again = bench.select(low, [*first, joins, bridge])
    assert {ref: again[ref] for ref in (*first, joins)} == {ref: after[ref] for ref in (*first, joins)}
    assert again[bridge].reason == "split_bridge"


def test_order_does_not_matter(bench, make, new_bench):
    made = [make("", " ".join(near(text(seed % 5), seed))) for seed in range(15)]
    ids = bench.add(*made)
    found = bench.select(BOTH, ids)
    with new_bench() as other:
        other.add(*made)
        shuffled = random.Random(0).sample(ids, len(ids))
        assert {ref: found[ref] for ref in shuffled} == other.select(BOTH, shuffled)
