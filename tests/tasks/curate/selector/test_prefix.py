"""Beginnings go for the longest kept trajectory that goes on from them."""

import itertools

from schemas.vocabulary import Decision, VerdictKind
from tasks.curate.selector.prefix import Prefix

CALL = ("run", '{"code":"1+1"}', "2")


def test_a_prefix_goes_and_the_longest_is_the_evidence(bench, make):
    ids = bench.add(
        make("q", CALL), make("q", CALL, "Two."), make("q", CALL, "Two.", "Done."), make("q", CALL, "Three.")
    )
    outcomes = bench.select(Prefix(), ids)
    assert [outcomes[ref].decision for ref in ids] == [Decision.DROP, Decision.DROP, Decision.KEEP, Decision.KEEP]
    assert outcomes[ids[0]].evidence == {"kept": ids[2], "steps": 2, "kept_steps": 4}
    for order in itertools.permutations(ids):
        assert bench.select(Prefix(), order) == {ref: outcomes[ref] for ref in order}


def test_equal_runs_other_prompts_and_other_teachers_stay(bench, make):
    ids = bench.add(
        make("q", "a", sample=0),
        make("q", "a", sample=1),
        make("p", "a", "b"),
        make("q", "a", "b", teacher="other"),
        make("", system="only a system prompt"),
    )
    assert bench.kept(Prefix(), ids) == ids
    assert bench.kept(Prefix(teachers="together"), ids) == ids[2:]


def test_a_passed_prefix_of_a_failed_run_stays(bench, make):
    ids = bench.add(make("q", "a"), make("q", "a", "b"))
    bench.judge(ids[0], VerdictKind.PASS, 1.0)
    bench.judge(ids[1], VerdictKind.FAIL, 0.0)
    assert bench.kept(Prefix(), ids) == ids
    assert bench.kept(Prefix(verdicts="ignore"), ids) == ids[1:]
