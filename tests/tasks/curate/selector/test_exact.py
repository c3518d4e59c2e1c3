"""Identical actions for one task are one; other tasks, other teachers and other texts are not."""

import itertools

from schemas.vocabulary import Decision, VerdictKind
from tasks.curate.selector.exact import Exact


def test_the_same_answer_to_another_task_stays(bench, make):
    ids = bench.add(
        make("3 + 4 = ?", "7", task="a", sample=0),
        make("3 + 4 = ?", "7", task="a", sample=1),
        make("2 + 5 = ?", "7", task="b", sample=0),
        make("2 + 5 = ?", "8", task="b", sample=1),
    )
    outcomes = bench.select(Exact(), ids)
    dropped = [ref for ref in ids if outcomes[ref].decision is Decision.DROP]
    assert dropped == [max(ids[:2])]
    assert outcomes[dropped[0]].reason == "duplicate"
    assert outcomes[dropped[0]].evidence["kept"] == min(ids[:2])


def test_without_a_task_id_the_prompt_is_the_task(bench, make):
    ids = bench.add(*(make(prompt, "yes", sample=n) for n, prompt in enumerate(["Is it?", "Is it?", "Was it?"])))
    assert len(bench.kept(Exact(), ids)) == 2


def test_other_teachers_are_a_group(bench, make):
    ids = bench.add(make("q", "a", task="a", teacher="x"), make("q", "a", task="a", teacher="y"))
    assert bench.kept(Exact(), ids) == ids
    assert len(bench.kept(Exact(teachers="together"), ids)) == 1


def test_short_and_empty_texts_do_not_collapse(bench, make):
    ids = bench.add(*(make("q", text, task="a") for text in ["yes", "no", "", "Yes"]))
    assert bench.kept(Exact(), ids) == ids
    assert len(bench.kept(Exact(normalise="strong"), ids)) == 3


def test_what_light_normalisation_ignores(bench, make):
    same = bench.add(*(make("q", text, task="a") for text in ["if x:\n  y", "if x: \r\n  y\n", "if x:\n  y  "]))
    other = bench.add(make("q", "if x:\ny", task="a"))
    assert len(bench.kept(Exact(), [*same, *other])) == 2
    assert bench.kept(Exact(normalise="raw"), same) == same


def test_policies_say_which_one_stays(bench, make):
    ids = bench.add(*(make("q", text, task="a") for text in ["a b", "a  b", "a   b"]))
    strong = {"normalise": "strong", "view": "actions"}
    assert bench.kept(Exact(keep="first", **strong), ids) == [min(ids)]
    bench.judge(ids[1], VerdictKind.PASS, 1.0)
    bench.judge(ids[0], VerdictKind.FAIL, 0.0)
    assert bench.kept(Exact(**strong), ids) == [ids[1]]


def test_order_does_not_matter_and_signatures_are_made_once(fresh_bench, make):
    bench = fresh_bench
    ids = bench.add(*(make("q", text, task="a", sample=n) for n, text in enumerate(["a", "b", "a", "a"])))
    first = set(bench.kept(Exact(), ids))
    count = bench.lake.sql("select count(*) from signatures").column(0)[0].as_py()
    for order in itertools.permutations(ids):
        assert set(bench.kept(Exact(), order)) == first
    assert bench.lake.sql("select count(*) from signatures").column(0)[0].as_py() == count == len(ids)
