"""Stage verify on a real lake: who is judged, what is written, what waits for the next run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from schemas.errors import FaultError, Unavailable, UserError
from schemas.recipe import Recipe
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Step, Trajectory, text_part
from schemas.vocabulary import Source, Stage, VerdictKind
from tasks.context import Context
from tasks.operator import WorkingSet
from tasks.sandbox.sandbox import Sandbox
from tasks.verify.base import Judgement, infrastructure
from tasks.verify.proof import prove
from tasks.verify.trouble import Unfit
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


TABLES = {"setups": ["create table t(a); insert into t values (1)"], "gold": "select a from t"}
LEVELS = {"parse": {"use": "schema", "spec": {"schema": {}}}}


@pytest.mark.parametrize(
    ("use", "good", "bad", "answer"),
    [
        ("sql_exec", TABLES, {**TABLES, "expected": [[[1]], [[2]]]}, "select a from t"),
        ("sql_exec", TABLES, {**TABLES, "setups": ["create tabl"]}, "select a from t"),
        ("hierarchical", {**LEVELS, "semantic": LEVELS["parse"]}, {**LEVELS, "semantic": {"use": "zzz"}}, "1"),
        (
            "composite",
            {"parts": [LEVELS["parse"]]},
            {"parts": [{**LEVELS["parse"], "options": {"timeout_s": -1}}]},
            "1",
        ),
        ("schema", {"schema": {}}, {"schema": {"$ref": "#/nowhere"}}, "1"),
        ("schema", {"schema": {}}, {"schema": {"$ref": "http://example.com/nowhere"}}, "1"),
        ("unit_tests", json.loads(SPEC), {**json.loads(SPEC), "packages": ["../../x"]}, GOOD),
        ("unit_tests", json.loads(SPEC), {**json.loads(SPEC), "packages": ["no-such-package-here==1"]}, GOOD),
        ("stdin_stdout", {"tests": [{"expected": "1"}]}, {"tests": [{"expected": "1"}], "language": "zzz"}, "print(1)"),
    ],
)
def test_a_task_that_cannot_be_judged_leaves_its_neighbours_alone(
    run_entry: Callable[..., Any], store: Callable[..., None], lake: Lake, use: str, good: Any, bad: Any, answer: str
) -> None:
    answer = f"```python\n{answer}\n```" if answer.startswith("print") else answer
    tasks = [made(name, use, json.dumps(spec)) for name, spec in (("a", good), ("b", bad), ("c", good))]
    store(tasks=tasks, trajectories=[answered(f"t{task.id}", task.id, answer) for task in tasks])
    run_entry(Stage.VERIFY, {"use": use}, WorkingSet(tasks=("a", "b", "c"), trajectories=("ta", "tb", "tc")))
    kinds = {key: [each.kind.value for each in found] for key, found in lake.verdicts(["ta", "tb", "tc"]).items()}
    assert (kinds["ta"], kinds.get("tb", []), kinds["tc"]) == (["pass"], [], ["pass"])
    dead = lake.sql("select item_id, reason from dead_letters").to_pylist()
    assert [(row["item_id"], row["reason"]) for row in dead] == [("tb", "bad_spec")]


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


class Slips(UnitTests, frozen=True, kw_only=True):
    """A verifier that does not foresee what one task asks."""

    def judge(self, task: Task, completion: str, ctx: Context) -> Judgement:
        if task.id != "a":
            raise IndexError("list index out of range")
        return UnitTests.judge(self, task, completion, ctx)


def test_an_exception_that_nobody_foresaw_is_one_items_and_tried_again(bare: Context) -> None:
    pairs = [(made("a"), GOOD), (made("b"), GOOD), (made("a"), "no code")]
    for _ in range(2):
        one, slip, other = Slips()._judge_all(pairs, bare)
        assert isinstance(slip, Unfit)
        assert (slip.reason, slip.detail) == ("judging_failed", "unit_tests: IndexError: list index out of range")
        assert [each.kind.value for each in (one, other) if isinstance(each, Judgement)] == ["pass", "unparsable"]


@pytest.mark.parametrize(
    ("use", "spec"),
    [
        ("unit_tests", json.dumps({**json.loads(SPEC), "packages": ["no-such-package-here==1"]})),
        ("zzz", "{}"),
    ],
)
def test_such_a_task_does_not_prove_itself(bare: Context, use: str, spec: str) -> None:
    assert prove(made("b", use, spec), bare, runs=1).reason == "bad_spec"


def test_a_sandbox_that_was_set_up_wrongly_is_no_tasks_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRISTMILL_SANDBOX_BACKEND", "x")
    ctx = Context(Recipe(name="test"), cast(Lake, None), "run", tmp_path, tmp_path)
    with pytest.raises(UserError, match="Unknown sandbox"):
        UnitTests().score_all([(made("a"), GOOD)], ctx)


def test_an_infrastructure_error_has_no_reward(bare: Context) -> None:
    assert UnitTests().verdict(infrastructure("sandbox", "gone"), bare).reward is None
    with pytest.raises(FaultError):
        UnitTests().verdict(Judgement(VerdictKind.INFRASTRUCTURE, 0.0), bare)
