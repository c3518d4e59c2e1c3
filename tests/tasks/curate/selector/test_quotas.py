"""Selectors that count: difficulty, per_task, balance, mixture, token_budget, interaction_density, licence."""

import itertools
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from schemas.task import Task, VerifierSpec
from schemas.trajectory import Provenance
from schemas.vocabulary import Decision, VerdictKind
from tasks.curate.selector.balance import Balance
from tasks.curate.selector.difficulty import Difficulty
from tasks.curate.selector.interaction_density import InteractionDensity
from tasks.curate.selector.licence import Licence
from tasks.curate.selector.mixture import Mixture
from tasks.curate.selector.per_task import PerTask
from tasks.curate.selector.token_budget import TokenBudget
from warehouse.lake import Stamp

CALL = ("run", "{}", "x")


def group(bench, make, task, passes, fails, **more):
    """A task's trajectories, the passed ones first."""
    ids = bench.add(*(make(task, f"answer {n}", task=task, sample=n, **more) for n in range(passes + fails)))
    for number, ref in enumerate(ids):
        bench.judge(ref, VerdictKind.PASS if number < passes else VerdictKind.FAIL, float(number < passes))
    return ids


def reasons(outcomes, ids):
    return [outcomes[ref].reason for ref in ids]


def test_difficulty_looks_at_the_whole_group(bench, make):
    easy, mixed, hard = (group(bench, make, name, p, 4 - p) for name, p in (("a", 4), ("b", 1), ("c", 0)))
    lone = bench.add(make("d", "x", task="d"))
    every = [*easy, *mixed, *hard, *lone]
    kept = [easy[0], mixed[0], hard[0], lone[0]]
    band = Difficulty(min_rate=0.1, max_rate=0.9)
    outcomes = bench.select(band, kept, all_ids=every)
    assert reasons(outcomes, kept) == ["too_easy", "in_band", "too_hard", "ungraded"]
    assert outcomes[mixed[0]].score == 0.25
    assert outcomes[mixed[0]].evidence == {"passed": 1, "judged": 4}
    assert bench.kept(Difficulty(ungraded=True), lone) == lone
    more = bench.add(make("b", "new", task="b", sample=9))
    bench.judge(more[0], VerdictKind.INFRASTRUCTURE)
    assert bench.select(band, kept, all_ids=[*every, *more]) == outcomes


def test_hard_tasks_keep_more(bench, make):
    easy, hard = group(bench, make, "a", 6, 0), group(bench, make, "b", 3, 3)
    kept = bench.kept(PerTask(easy=1, hard=5), [*easy, *hard])
    assert len(set(kept) & set(easy)) == 1
    assert set(hard[:3]) <= set(kept)
    assert len(set(kept) & set(hard)) == 3
    outcomes = bench.select(PerTask(easy=1, hard=5), [*easy, *hard])
    assert Counter(reasons(outcomes, easy))["over_quota"] == 5
    assert outcomes[hard[0]].evidence == {"passed": 3, "judged": 6, "quota": 3}


def test_balance_bounds_cells_and_reports_short_ones(bench, make):
    said = []
    bench.ctx.say = said.append
    ids = bench.add(
        *(make("q", f"a{n}", teacher="x", sample=n) for n in range(5)),
        *(make("q", f"b{n}", teacher="y", sample=n) for n in range(2)),
    )
    outcomes = bench.select(Balance(columns=("teacher",)), ids)
    assert Counter(reasons(outcomes, ids)) == {"ok": 4, "over_quota": 3}
    outcomes = bench.select(Balance(columns=("teacher",), quota=3, expect=({"teacher": "z"},)), ids)
    assert Counter(reasons(outcomes, ids)) == {"ok": 3, "over_quota": 2, "short_cell": 2}
    assert outcomes[ids[-1]].evidence == {"cell": {"teacher": "y"}, "quota": 3, "size": 2}
    assert said == ["balance: the cell {'teacher': 'z'} has 0 of 3"]


def test_mixture_is_exact(bench, make):
    tasks = [Task(id=kind, kind=kind, prompt=(), verifier=VerifierSpec(use="v")) for kind in ("m", "c", "o")]
    bench.lake.append(Stamp("run", "test", "f"), {"tasks": tasks})
    ids = bench.add(
        *(make("q", f"{k}{n}", task=k) for k, count in (("m", 7), ("c", 4), ("o", 2)) for n in range(count))
    )
    outcomes = bench.select(Mixture(ratios={"m": 1, "c": 3}), ids)
    assert Counter(reasons(outcomes, ids)) == {"ok": 5, "over_ratio": 6, "not_in_mixture": 2}
    with pytest.raises(UserError, match="none"):
        bench.select(Mixture(ratios={"m": 1, "z": 1}), ids)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 9), st.integers(1, 60)), min_size=1),
    st.integers(0, 100),
)
def test_mixture_parts_are_as_large_as_they_can_be(wanted, size):
    ratios = {value: weight / 10 for value, (weight, _) in wanted.items()}
    sizes = Counter({value: count for value, (_, count) in wanted.items()})
    parts = Mixture(ratios=ratios, size=size)._parts(sizes)
    total, whole = sum(parts.values()), sum(weight for weight, _ in wanted.values())
    assert all(parts[value] <= sizes[value] for value in parts)
    assert all(abs(parts[value] - total * weight / whole) < 1 for value, (weight, _) in wanted.items())
    assert not size or total <= size
    # One more of each in the same ratio would not fit.
    if not size:
        assert any(total * weight / whole + weight / whole + 1 >= count for weight, count in wanted.values())


def test_token_budget_is_spent_and_never_exceeded(bench, make):
    ids = bench.add(*(make("", "word " * n, sample=n) for n in (5, 10, 20, 40)))
    outcomes = bench.select(TokenBudget(tokens=37, per_word=1, order="longest"), ids)
    assert reasons(outcomes, ids) == ["ok", "ok", "ok", "over_budget"]
    assert outcomes[ids[3]].evidence == {"tokens": 40, "spent": 0}
    random = TokenBudget(tokens=30, per_word=1)
    first = bench.select(random, ids)
    for order in itertools.permutations(ids):
        assert bench.select(random, order, store=False) == {ref: first[ref] for ref in order}


def test_density_keeps_the_busiest(bench, make):
    ids = bench.add(
        make("q", CALL, CALL, "done"), make("q", CALL, "done"), make("q", "done"), make("q", ("run", "{}", None))
    )
    outcomes = bench.select(InteractionDensity(top=2), ids)
    assert [outcomes[ref].decision is Decision.KEEP for ref in ids] == [True, True, False, False]
    assert [outcomes[ref].score for ref in ids] == [2, 1, 0, 0]
    assert bench.kept(InteractionDensity(share=0.25), ids) == ids[:1]
    assert bench.kept(InteractionDensity(measure="per_step", least=0.6), ids) == ids[:1]


def test_licences(bench, make):
    def from_elsewhere(n, licence):
        source = Provenance(licence=licence, reader="r", dataset="d", record=str(n))
        return msgspec.structs.replace(make("q", f"a{n}", sample=n), id=f"id{n}", provenance=source)

    ids = bench.add(
        *(from_elsewhere(n, name) for n, name in enumerate(["MIT", "CC BY-NC 4.0", None])), make("q", "own")
    )
    assert reasons(bench.select(Licence(refuse=("cc-by-nc-*",)), ids), ids) == [
        "ok",
        "licence_refused",
        "licence_unknown",
        "ok",
    ]
    assert bench.kept(Licence(allow=("mit",), unknown=True, own="apache-2.0"), ids) == [ids[0], ids[2]]
    assert Licence.bars_everywhere
