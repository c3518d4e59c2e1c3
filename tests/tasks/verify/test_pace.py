"""Time limits follow the gold solution on this machine; a task whose gold only sometimes passes is quarantined."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas.task import Task, VerifierSpec
from schemas.vocabulary import Stage, VerdictKind
from tasks.context import Context
from tasks.verify.pace import paced, stretched
from tasks.verify.proof import prove
from tasks.verify.verifier.stdin_stdout import StdinStdout
from tasks.verify.verifier.unit_tests import UnitTests

# Far too little for any Python program that waits: what a fast machine's author wrote down.
TIGHT: dict[str, Any] = {"tests": [{"stdin": "4", "expected": "16"}], "timeout_s": 0.25}
SLOW_GOLD = "```python\nimport time\ntime.sleep(0.5)\nprint(int(input()) ** 2)\n```"


def task(use: str, spec: dict[str, Any], gold: str | None) -> Task:
    return Task(id="a", kind="x", prompt=(), verifier=VerifierSpec(use=use, spec_json=json.dumps(spec)), gold=gold)


def test_who_is_as_slow_as_the_gold_is_not_too_slow(bare: Context) -> None:
    slow = task("stdin_stdout", TIGHT, SLOW_GOLD)
    found = StdinStdout(headroom=4).anew(slow, SLOW_GOLD.replace("0.5", "0.6"), bare)
    assert found.kind is VerdictKind.PASS
    assert found.evidence["gold_s"] >= 0.5
    assert found.evidence["limit_s"] == pytest.approx(4 * found.evidence["gold_s"], abs=0.01)
    # Without a gold solution, or without headroom, the task's own limit stands.
    for verifier, other in ((StdinStdout(headroom=0), slow), (StdinStdout(), task("stdin_stdout", TIGHT, None))):
        assert verifier.anew(other, SLOW_GOLD, bare).kind is VerdictKind.TIMEOUT


def test_a_raised_limit_is_a_limit(bare: Context) -> None:
    slow = task("stdin_stdout", TIGHT, SLOW_GOLD)
    found = StdinStdout(headroom=2).anew(slow, "```python\nwhile True: pass\n```", bare)
    assert found.kind is VerdictKind.TIMEOUT
    assert found.evidence["limit_s"] < 10


def test_the_limit_is_never_below_the_tasks_own(bare: Context) -> None:
    quick = task(
        "unit_tests", {"entry": "f", "tests": [{"expected": 1}], "timeout_s": 2}, "```python\ndef f(): return 1\n```"
    )
    found = UnitTests(headroom=0.01, cpu_s=1).anew(quick, "```python\ndef f():\n    while True: pass\n```", bare)
    assert (found.kind, found.evidence["limit_s"]) == (VerdictKind.TIMEOUT, 2.0)
    assert paced(UnitTests(), quick, 0.3).limit_s == 3.0
    assert paced(UnitTests(), quick, None).scale == 1.0


def test_only_time_is_stretched() -> None:
    spec = {"entry": "f", "tests": [], "timeout_s": 2, "memory_mb": 9}
    verifier, longer = stretched(UnitTests(cpu_s=3), task("unit_tests", spec, None), 2.5)
    assert (verifier.timeout_s, verifier.cpu_s, verifier.memory_mb) == (12.5, 7.5, 512)
    assert json.loads(longer.verifier.spec_json) == {**spec, "timeout_s": 5.0}


def test_a_slow_gold_proves_its_task_and_the_limit_is_evidence(bare: Context) -> None:
    proof = prove(task("stdin_stdout", TIGHT, SLOW_GOLD), bare, runs=2)
    assert proof.ok, proof
    assert proof.evidence["gold_s"] >= 0.5
    assert proof.evidence["limit_s"] == pytest.approx(10 * proof.evidence["gold_s"], abs=0.01)
    assert set(proof.evidence["refused"]) == {"empty", "exit", "echo", "passed", "stub"}
    silent = task("stdin_stdout", {"tests": [{"expected": ""}]}, "```python\nprint()\n```")
    assert prove(silent, bare, runs=1).reason.startswith("cheat_passes")


def test_a_gold_that_passes_only_sometimes_is_quarantined_with_its_reason(bare: Context) -> None:
    gold = "```python\ndef f():\n    return len(str(hash('a'))) // 100 + hash('a') % 2\n```"
    proof = prove(task("unit_tests", {"entry": "f", "tests": [{"expected": 1}]}, gold), bare, runs=10)
    assert proof.reason == "flaky"
    assert 0 < proof.evidence["passed"] < proof.evidence["runs"] == 10


def test_a_synthesizer_records_the_limit(run_entry: Callable[..., Any]) -> None:
    ran = run_entry(Stage.SYNTHESIZE, {"use": "programs", "names": ["add"]})
    rows = ran.ctx.lake.sql("select evidence_json from decisions where decision = 'keep'").to_pylist()
    told = [json.loads(row["evidence_json"]) for row in rows]
    assert len(told) == 1
    assert 0 < told[0]["gold_s"] <= told[0]["limit_s"]
