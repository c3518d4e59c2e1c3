"""A number that no task can mean makes its specification unusable, and never trouble of the surroundings."""

import json
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from tasks.context import Context
from tasks.verify.pace import stretched
from tasks.verify.verifier.answer_check import AnswerCheck
from tasks.verify.verifier.assert_tests import AssertTests
from tasks.verify.verifier.composite import Composite
from tasks.verify.verifier.repo_tests import RepoTests
from tasks.verify.verifier.rubric import Rubric
from tasks.verify.verifier.stdin_stdout import StdinStdout
from tasks.verify.verifier.unit_tests import UnitTests

CALLS = {"entry": "f", "tests": [{"args": [], "expected": 1}]}
PROGRAM = {"tests": [{"expected": "1"}]}
ASSERTS = {"entry": "f", "test": "def check(f): assert f() == 1"}
PATCH = {"files": {"a.py": ""}, "tests": {"t.py": ""}, "fail_to_pass": ["t.py::test"]}
PART = {"use": "schema", "spec": {"schema": {"const": 5}}}


def task(use: str, text: str) -> Task:
    return Task(id="a", kind="x", prompt=(), verifier=VerifierSpec(use=use, spec_json=text))


@pytest.mark.parametrize(
    ("verifier", "spec", "bad"),
    [
        *((UnitTests(), CALLS, {"timeout_s": bad}) for bad in (-5, 0, 1e308, 10**400)),
        *((UnitTests(), CALLS, {"cpu_s": bad}) for bad in (-1, 1e300)),
        *((UnitTests(), CALLS, {"memory_mb": bad}) for bad in (-1, 0, 10**15, 1 << 70)),
        (UnitTests(), CALLS, {"tolerance": -1.0}),
        (StdinStdout(), PROGRAM, {"timeout_s": -5}),
        (StdinStdout(), PROGRAM, {"memory_mb": -1}),
        (AssertTests(), ASSERTS, {"timeout_s": 1e308}),
        (RepoTests(), PATCH, {"timeout_s": -5}),
        (Composite(), {"parts": [PART]}, {"threshold": -1}),
        (Composite(), {}, {"parts": [{**PART, "weight": 1e308}] * 2}),
        (Composite(), {}, {"parts": [{**PART, "weight": -1}]}),
        (Rubric(), {"criteria": [{"text": "x"}]}, {"threshold": -1}),
        (AnswerCheck(), {"answers": ["5"], "mode": "numeric"}, {"tolerance": -1}),
    ],
)
def test_numbers_out_of_range_are_a_bad_specification(
    bare: Context, verifier: Any, spec: dict[str, Any], bad: dict[str, Any]
) -> None:
    answer = "```python\ndef f(): return 1\n```"
    with pytest.raises(RecordError) as error:
        verifier.score(task(verifier.plugin_id(), json.dumps({**spec, **bad})), answer, bare)
    assert error.value.reason == "bad_spec"


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_what_is_no_finite_number_is_a_bad_specification(bare: Context, word: str) -> None:
    text = json.dumps(CALLS)[:-1] + f', "timeout_s": {word}}}'
    with pytest.raises(RecordError, match="bad_spec"):
        UnitTests().score(task("unit_tests", text), "```python\ndef f(): return 1\n```", bare)


def test_the_least_limits_are_limits(bare: Context) -> None:
    least = {**CALLS, "timeout_s": 0.001, "cpu_s": 0.001, "memory_mb": 16}
    found = UnitTests().score(task("unit_tests", json.dumps(least)), "```python\nwhile True: pass\n```", bare)
    assert found.kind.value in ("timeout", "memory")


def test_stretched_limits_stay_in_range() -> None:
    _, longer = stretched(UnitTests(), task("unit_tests", json.dumps({**CALLS, "timeout_s": 600_000})), 20)
    assert json.loads(longer.verifier.spec_json)["timeout_s"] == 7 * 86_400
