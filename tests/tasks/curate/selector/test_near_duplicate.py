"""Planted sets with the decisions that are right for them, and the laws of a set decision."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.vocabulary import Decision, VerdictKind
from tasks.curate.selector.near_duplicate import NearDuplicate

WORDS = [a + b + c for a, b, c in itertools.product("bdfglmnprst", "aeiou", "bdfglmnprst")]


def prose(seed, n=120):
    return random.Random(seed).choices(WORDS, k=n)


def edited(words, places, seed=0):
    rng = random.Random(seed)
    words = list(words)
    for place in places:
        words[place] = rng.choice(WORDS) + "x"
    return words


def jaccard(a, b, window=5):
    one, two = ({tuple(t[i : i + window]) for i in range(len(t) - window + 1)} for t in (a, b))
    return len(one & two) / len(one | two)


def test_light_edits_go_heavy_edits_stay(bench, make):
    base = prose(1)
    light, heavy = edited(base, [60]), edited(base, range(0, 120, 8))
    ids = bench.add(*(make("", " ".join(text)) for text in (base, light, heavy)))
    outcomes = bench.select(NearDuplicate(view="actions"), ids)
    dropped = [ref for ref in ids if outcomes[ref].decision is Decision.DROP]
    assert len(dropped) == 1
    assert dropped[0] in ids[:2]
    found = outcomes[dropped[0]]
    assert found.reason == "near_duplicate"
    assert found.evidence["kept"] == next(ref for ref in ids[:2] if ref != dropped[0])
    assert found.evidence["jaccard"] == pytest.approx(jaccard(base, light))


def test_no_blind_transitive_closure(bench, make):
    # a ~ b and b ~ c, but a and c differ: when a stays, b goes for it, and c stays.
    a = prose(2, 200)
    b = edited(a, [20, 22, 24, 26])
    c = edited(b, [100, 102, 104, 106, 170, 172])
    assert jaccard(a, b) >= 0.8 and jaccard(b, c) >= 0.8 > jaccard(a, c)
    ids = bench.add(*(make("", " ".join(text)) for text in (a, b, c)))
    bench.judge(ids[0], VerdictKind.PASS, 1.0)
    assert bench.kept(NearDuplicate(view="actions"), ids) == [ids[0], ids[2]]


def test_templates_with_other_values_stay(bench, make):
    filler = " ".join(prose(4, 150))

    def order(number, day):
        return f"Please ship order {number} to the north gate before day {day}, then: {filler}"

    ids = bench.add(*(make("", order(n, d), sample=s) for s, (n, d) in enumerate([(17, 3), (18, 3), (18, 4), (18, 4)])))
    outcomes = bench.select(NearDuplicate(view="actions"), ids)
    assert [outcomes[ref].decision for ref in ids].count(Decision.DROP) == 1
    spared = [outcomes[ref].evidence for ref in ids if "resembles" in outcomes[ref].evidence]
    assert spared
    assert len(bench.kept(NearDuplicate(view="actions", templates="compare"), ids)) < 3


def test_prompts_of_one_template_keep_their_answers_apart(bench, make):
    asked = " ".join(prose(3, 80)) + " with {} apples and {} pears"
    ids = bench.add(
        make(asked.format(2, 3), "I count them all and get five", task="a"),
        make(asked.format(4, 3), "I count all of them and get seven", task="b"),
    )
    assert bench.kept(NearDuplicate(), ids) == ids


@pytest.mark.parametrize("view", ["whole", "actions"])
def test_short_texts_compare_exactly_and_within_their_task(bench, make, view):
    ids = bench.add(
        *(make("", text, task="a", sample=n) for n, text in enumerate(["yes", "no", "", "yes", "Yes"])),
        make("", "yes", task="b"),
    )
    kept = bench.kept(NearDuplicate(view=view), ids)
    assert len(kept) == 5
    assert {ids[1], ids[2], ids[4], ids[5]} <= set(kept)


def test_translations_stay(bench, make):
    ids = bench.add(
        make("", "The cat sleeps on the warm roof while the rain is far away over the hills"),
        make("", "Die Katze schläft auf dem warmen Dach während der Regen weit weg über den Hügeln ist"),
        make("", "猫は暖かい屋根の上で眠り、雨は遠く丘の向こうに降っている。"),
    )
    assert bench.kept(NearDuplicate(), ids) == ids


def test_texts_without_spaces_have_shingles(bench, make):
    text = "猫は暖かい屋根の上で眠り、雨は遠く丘の向こうに降っている。それでも彼女は目を覚まさない。"
    ids = bench.add(make("", text), make("", text + "ね"))
    assert len(bench.kept(NearDuplicate(), ids)) == 1


def test_a_prefix_is_no_near_duplicate(bench, make):
    steps = [" ".join(prose(seed, 60)) for seed in range(4)]
    ids = bench.add(make("q", *steps[:2]), make("q", *steps))
    assert bench.kept(NearDuplicate(), ids) == ids


def test_the_same_task_by_other_teachers_is_a_group(bench, make):
    text = prose(5)
    ids = bench.add(
        make("q", " ".join(text), task="a", teacher="x"),
        make("q", " ".join(edited(text, [60])), task="a", teacher="y"),
        make("q", " ".join(edited(text, [61])), task="a", teacher="x"),
    )
    assert len(bench.kept(NearDuplicate(), ids)) == 2
    assert len(bench.kept(NearDuplicate(same_task="compare"), ids)) == 1
    assert bench.kept(NearDuplicate(same_task="spare"), ids) == ids


def test_other_tasks_only_when_asked(bench, make):
    text = prose(6)
    ids = bench.add(make("q", " ".join(text), task="a"), make("q", " ".join(edited(text, [60])), task="b"))
    assert len(bench.kept(NearDuplicate(), ids)) == 1
    assert bench.kept(NearDuplicate(across_tasks=False), ids) == ids


def test_boilerplate_does_not_count(bench, make):
    system = " ".join(prose(7, 400))
    ids = bench.add(*(make("", " ".join(prose(seed, 40)), system=system) for seed in (8, 9)))
    assert bench.kept(NearDuplicate(), ids) == ids


def test_call_arguments_count(bench, make):
    def call(path):
        return ("edit", f'{{"path":"{path}","text":"{" ".join(prose(10, 60))}"}}', "ok")

    ids = bench.add(make("q", call("a"), "done"), make("q", call("b"), "done"), make("q", ("look", "{}", "x"), "done"))
    assert len(bench.kept(NearDuplicate(), ids)) == 2


texts = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 39), max_size=3), st.integers(0, 50), st.integers(0, 2)),
    min_size=1,
    max_size=14,
)


def test_incremental_is_as_from_scratch(new_bench, make):
    selector = NearDuplicate(view="actions", threshold=0.6)
    with new_bench() as grown, new_bench() as fresh:

        @settings(max_examples=5, deadline=None)
        @given(planned=texts, cut=st.integers(0, 14), seed=st.integers(0, 9))
        def law(planned, cut, seed):
            made = [
                make("", " ".join(edited(prose(base, 40), places)[:length]), task=str(task), sample=n)
                for n, (base, places, length, task) in enumerate(planned)
            ]
            ids = grown.add(*made)
            fresh.add(*made)
            grown.select(selector, ids[:cut])
            # The fresh lake never stores a signature.
            scratch = fresh.select(selector, random.Random(seed).sample(ids, len(ids)), store=False)
            assert grown.select(selector, ids) == {ref: scratch[ref] for ref in ids}

        law()
