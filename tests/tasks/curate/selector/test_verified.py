"""Only passed trajectories stay, and a later verdict opens the choice again."""

from schemas.vocabulary import VerdictKind
from tasks.curate.selector.verified import Verified
from tasks.operator import WorkingSet


def test_reason_is_the_kind_of_the_verdict(bench, make):
    ids = bench.add(*(make("q", str(number)) for number in range(4)))
    bench.judge(ids[0], VerdictKind.PASS, 1.0)
    bench.judge(ids[1], VerdictKind.FAIL, 0.0)
    bench.judge(ids[2], VerdictKind.TIMEOUT)
    outcomes = bench.select(Verified(), ids)
    assert [outcomes[ref].reason for ref in ids] == ["passed", "fail", "timeout", "unverified"]
    assert [outcomes[ref].decision.value for ref in ids] == ["keep", "drop", "drop", "drop"]
    assert outcomes[ids[1]].evidence["verifier"] == "v"


def test_any_and_all_of_several_verifiers(bench, make):
    (ref,) = bench.add(make("q", "a"))
    bench.judge(ref, VerdictKind.PASS, 1.0, "one")
    bench.judge(ref, VerdictKind.FAIL, 0.0, "two")
    assert bench.kept(Verified(need="any"), [ref]) == [ref]
    assert bench.select(Verified(), [ref])[ref].reason == "fail"
    assert bench.kept(Verified(verifiers=("one",)), [ref]) == [ref]
    assert bench.select(Verified(verifiers=("three",)), [ref])[ref].reason == "unverified"


def test_a_low_reward_is_no_pass_when_one_is_asked_for(bench, make):
    (ref,) = bench.add(make("q", "a"))
    bench.judge(ref, VerdictKind.PASS, 0.4)
    assert bench.select(Verified(min_reward=0.5), [ref])[ref].reason == "low_reward"
    assert bench.kept(Verified(min_reward=0.4), [ref]) == [ref]


def test_a_new_verdict_makes_a_new_item(bench, make):
    (ref,) = bench.add(make("q", "a"))
    inputs = WorkingSet(trajectories=(ref,))
    before = Verified().plan(inputs, bench.ctx).items
    bench.judge(ref, VerdictKind.PASS, 1.0)
    after = Verified().plan(inputs, bench.ctx).items
    assert before[0].ref == after[0].ref == ref
    assert before[0].id != after[0].id
    assert after == Verified().plan(inputs, bench.ctx).items
