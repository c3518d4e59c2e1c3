"""Recorded verdicts are judged again: what no longer holds is said, recorded and no longer remembered."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gristmill.cli import app
from gristmill.commands.verify import size
from schemas.errors import UserError
from schemas.ids import canonical_json, content_id
from schemas.recipe import Recipe
from schemas.rows import RunEvent, Verdict
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Step, Trajectory, text_part
from schemas.vocabulary import Source, Stage, Trust, VerdictKind
from tasks.context import Context
from tasks.operator import WorkingSet
from tasks.recipe import operator_of
from tasks.verify.again import again, lines
from warehouse.lake import Lake, Stamp

SPEC = json.dumps({"entry": "f", "tests": [{"args": [1], "expected": 2}], "timeout_s": 2})
RECIPE = Recipe(name="test", verify=({"use": "unit_tests"}, {"use": "answer_check"}))
CODES = {
    "t1": "def f(x): return 2",
    "t2": "def f(x): return 3",
    "t3": "def f(x): return",
    "t4": "def f(x): return x",
    "t5": "def f(x): return 2.0",
}


@pytest.fixture
def judged(run_entry: Callable[..., Any], store: Callable[..., None], lake: Lake, tmp_path: Path) -> Lake:
    """A lake with five judged answers, one of them with a recorded verdict that is wrong."""

    def said(name: str, code: str) -> Trajectory:
        step = Step(source=Source.AGENT, content=text_part(f"```python\n{code}\n```"))
        return Trajectory(id=name, steps=(step,), task_id="a")

    task = Task(
        id="a", kind="code", prompt=(Message(role="user", content="f"),),
        verifier=VerifierSpec(use="unit_tests", spec_json=SPEC),
    )  # fmt: skip
    started = RunEvent(id="r", event="started", recipe="test", recipe_json=canonical_json(RECIPE))
    store(tasks=[task], trajectories=[said(*each) for each in CODES.items()], runs=[started])
    run_entry(Stage.VERIFY, {"use": "unit_tests"}, WorkingSet(trajectories=("t1", "t2", "t3", "t5")))
    fingerprint = operator_of(RECIPE, Stage.VERIFY, 0).fingerprint(Context(RECIPE, lake, "", tmp_path, tmp_path))
    wrong = [_verdict("t4", VerdictKind.PASS, 1.0)]
    lake.append(Stamp("r", "unit_tests", fingerprint), {"verdicts": wrong})
    return lake


def _verdict(of: str, kind: VerdictKind, reward: float | None, trust: Trust = Trust.OUTSIDE) -> Verdict:
    return Verdict(
        id=content_id("test", of, kind), trajectory_id=of, verifier="unit_tests", kind=kind, reward=reward,
        trust=trust, evidence_json='{"reason":"pass"}',
    )  # fmt: skip


def test_only_the_wrong_one_disagrees_and_why_tells_it(judged: Lake) -> None:
    checks = again(judged, None, 0, "again-1")
    assert {check.trajectory_id: check.how for check in checks} == {
        "t1": "agree", "t2": "agree", "t3": "agree", "t4": "disagree", "t5": "agree",
    }  # fmt: skip
    wrong = next(check for check in checks if check.how == "disagree")
    assert (wrong.kind, wrong.kind_again, wrong.reason_again) == ("pass", "fail", "wrong_value")
    assert [(line.kind, line.agree, line.disagree) for line in lines(checks)] == [("fail", 2, 0), ("pass", 2, 1)]
    again(judged, None, 0, "again-2")
    rows = judged.sql("select parents, reason, evidence_json from decisions where operator = 'verify_again'")
    assert [(row["parents"], row["reason"]) for row in rows.to_pylist()] == [(["t4"], "disagreement")]
    told = CliRunner().invoke(app, ["why", "t4", "--lake", str(judged.address), "--json"])
    assert json.loads(told.stdout)[-1]["reason"] == "disagreement"


def test_the_command_says_it_by_its_exit_code(judged: Lake) -> None:
    place = ["--lake", str(judged.address)]
    found = CliRunner().invoke(app, ["verify", "--again", "--json", *place])
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert (told["n"], [each["trajectory_id"] for each in told["disagreements"]]) == (5, ["t4"])
    shown = CliRunner().invoke(app, ["verify", "--again", *place])
    assert (shown.exit_code, "t4" in shown.stdout) == (1, True)


def test_a_disagreement_is_no_longer_remembered(
    judged: Lake, run_entry: Callable[..., Any], make_context: Callable[..., Context]
) -> None:
    ctx = make_context()
    verifier = operator_of(RECIPE, Stage.VERIFY, 0)
    task, text = judged.tasks(["a"])[0], f"```python\n{CODES['t4']}\n```"
    key = verifier.key(task, text, ctx)  # type: ignore[attr-defined]
    right = verifier.settle(task, f"```python\n{CODES['t1']}\n```", ctx, "t1")  # type: ignore[attr-defined]
    assert ctx.judgements is not None
    assert right.evidence["cached_from"] == "t1"
    # As if the wrong verdict had come from a judgement that is remembered.
    ctx.judgements.record(key, b"anything")
    again(judged, None, 0, "again-1")
    assert ctx.judgements.get(key) is None
    ctx.close()


def test_a_sample_is_the_same_for_the_same_seed_and_grows(judged: Lake) -> None:
    def ids(sample: float | None, seed: int = 0) -> set[str]:
        return {check.verdict_id for check in again(judged, sample, seed, "again")}

    assert ids(2) == ids(2) < ids(4) < ids(None)
    assert len(ids(0.5)) == math.ceil(0.5 * 5)
    assert len({frozenset(ids(2, seed)) for seed in range(6)}) > 1


def test_what_cannot_be_compared_is_counted_apart(judged: Lake) -> None:
    fingerprint = judged.sql("select any_value(fingerprint) as f from verdicts where trajectory_id = 't1'")
    opinion = [_verdict("t2", VerdictKind.REFUSED, 0.0, Trust.MODEL)]
    judged.append(Stamp("r", "unit_tests", fingerprint["f"][0].as_py()), {"verdicts": opinion})
    judged.append(Stamp("r", "unit_tests", "0" * 32), {"verdicts": [_verdict("t1", VerdictKind.TIMEOUT, 0.0)]})
    disputed = [_verdict("t3", VerdictKind.DISPUTED, None)]
    judged.append(Stamp("r", "unit_tests", fingerprint["f"][0].as_py()), {"verdicts": disputed})
    found = {(line.kind, key): n for line in lines(again(judged, None, 0, "x")) for key, n in line.not_compared.items()}
    assert found == {("refused", "model"): 1, ("disputed", "disputed"): 1, ("timeout", "other_version"): 1}


@pytest.mark.parametrize(("text", "want"), [("200", 200), ("1", 1), ("0.1", 0.1), ("10%", 0.1), ("100%", None)])
def test_sizes(text: str, want: float | None) -> None:
    assert size(text) == want


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "abc", "0%", "200%", "nan", ""])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        size(text)


def test_verify_alone_says_what_to_do() -> None:
    with pytest.raises(UserError, match="--again"):
        CliRunner().invoke(app, ["verify"], catch_exceptions=False)
