"""Stage verify on a real lake: who is judged, what is written, what waits for the next run."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas.errors import FaultError, Unavailable
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Step, Trajectory, text_part
from schemas.vocabulary import Source, Stage, VerdictKind
from tasks.context import Context
from tasks.operator import WorkingSet
from tasks.sandbox.sandbox import Sandbox
from tasks.verify.base import Judgement, infrastructure
from tasks.verify.verifier.unit_tests import UnitTests
from warehouse.lake import Lake

GOOD = "```python\ndef f(x):\n    return x + 1\n```"
SPEC = json.dumps({"entry": "f", "tests": [{"args": [1], "expected": 2}]})


def made(name: str, use: str = "unit_tests", spec: str = SPEC) -> Task:
    return Task(
        id=name, kind="code", prompt=(Message(role="user", content=name),), gold=GOOD,
        verifier=VerifierSpec(use=use, spec_json=spec),
    )  # fmt: skip


def answered(name: str, task: str | None, text: str) -> Trajectory:
    step = Step(source=Source.AGENT, content=text_part(text))
    return Trajectory(id=name, steps=(step,), task_id=task, parents=(task,) if task else ())


@pytest.fixture
def filled(store: Callable[..., None]) -> WorkingSet:
    trajectories = [
        answered("t1", "a", GOOD),
        answered("t2", "a", "```python\ndef f(x): return x\n```"),
        answered("t3", "a", "no code"),
        answered("t4", "bad", GOOD),
        answered("t5", "other", GOOD),
        answered("t6", None, GOOD),
        answered("t7", "a", GOOD),
    ]
    store(tasks=[made("a"), made("bad", spec="{}"), made("other", use="exact_answer")], trajectories=trajectories)
    return WorkingSet(tasks=("a", "bad", "other"), trajectories=tuple(each.id for each in trajectories))


def test_every_eligible_trajectory_gets_one_verdict(
    run_entry: Callable[..., Any], filled: WorkingSet, lake: Lake
) -> None:
    for _ in range(2):
        run_entry(Stage.VERIFY, {"use": "unit_tests"}, filled)
    verdicts = {key: found for key, found in lake.verdicts(list(filled.trajectories)).items() if found}
    assert {key: [each.kind.value for each in found] for key, found in verdicts.items()} == {
        "t1": ["pass"],
        "t2": ["fail"],
        "t3": ["unparsable"],
        "t7": ["pass"],
    }
    assert [verdicts[key][0].reward for key in ("t1", "t2", "t3")] == [1.0, 0.0, 0.0]
    rulings = lake.sql("select item_id, decision, reason, score from decisions order by item_id").to_pylist()
    assert [(row["item_id"], row["decision"], row["reason"]) for row in rulings] == [
        ("t1", "keep", "pass"),
        ("t2", "keep", "fail"),
        ("t3", "keep", "unparsable"),
        ("t7", "keep", "pass"),
    ]
    dead = lake.sql("select item_id, reason from dead_letters").to_pylist()
    assert [(row["item_id"], row["reason"]) for row in dead] == [("t4", "bad_spec")]


def test_trouble_of_the_surroundings_leaves_the_items_for_the_next_run(
    run_entry: Callable[..., Any], filled: WorkingSet, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(slots: int | None = None, *, watchdog: bool = False) -> Sandbox:
        raise Unavailable("sandbox", "no bubblewrap")

    with monkeypatch.context() as patch:
        patch.setattr(Sandbox, "start", broken)
        first = run_entry(Stage.VERIFY, {"use": "unit_tests"}, filled)
    # The one without code is judged without a sandbox; nothing else got a reward of 0 in place of a verdict.
    assert [key for key, found in lake.verdicts(list(filled.trajectories)).items() if found] == ["t3"]
    assert (first.report.n_pending, first.report.n_dead, first.report.n_kept) == (3, 1, 1)
    run_entry(Stage.VERIFY, {"use": "unit_tests"}, filled)
    assert lake.verdicts(["t1"])["t1"][0].kind is VerdictKind.PASS


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -0.1, 1.1, None])
def test_a_reward_that_is_no_number_in_range_is_a_fault(bare: Context, reward: float | None) -> None:
    with pytest.raises(FaultError):
        UnitTests().verdict(Judgement(VerdictKind.FAIL, reward), bare)


def test_an_infrastructure_error_has_no_reward(bare: Context) -> None:
    assert UnitTests().verdict(infrastructure("sandbox", "gone"), bare).reward is None
    with pytest.raises(FaultError):
        UnitTests().verdict(Judgement(VerdictKind.INFRASTRUCTURE, 0.0), bare)
