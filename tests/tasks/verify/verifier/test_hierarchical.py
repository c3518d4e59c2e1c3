"""Levels worth more and more: what cannot be read, what is read, what is valid, what is right."""

import json
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.hierarchical import Hierarchical

POINT = {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}
LEVELS: dict[str, Any] = {
    "parse": {"use": "schema", "spec": {"schema": {}}},
    "valid": {"use": "schema", "spec": {"schema": POINT}},
    "semantic": {"use": "schema", "spec": {"schema": {}, "expected": {"x": 7}}},
}


def task(spec: dict[str, Any], gold: str | None = None) -> Task:
    verifier = VerifierSpec(use="hierarchical", spec_json=json.dumps(spec))
    return Task(id="a", kind="x", prompt=(), verifier=verifier, gold=gold)


@pytest.mark.parametrize(
    ("answer", "kind", "reward", "reason"),
    [
        ("Hello.", "unparsable", 0.0, "parse:no_json"),
        ('{"y": 1}', "fail", 0.1, "valid:invalid"),
        ('{"x": 6}', "fail", 0.3, "semantic:wrong_value"),
        ('{"x": 7}', "pass", 1.0, "pass"),
    ],
)
def test_the_highest_level_reached_is_the_reward(
    bare: Context, answer: str, kind: str, reward: float, reason: str
) -> None:
    found = Hierarchical().score(task(LEVELS), answer, bare)
    assert (found.kind.value, found.reward, json.loads(found.evidence_json)["reason"]) == (kind, reward, reason)


def test_a_level_is_asked_only_when_the_one_before_it_holds(bare: Context) -> None:
    # The last level's specification cannot be used, which shows only where it is asked.
    spec = {**LEVELS, "semantic": {"use": "unit_tests", "spec": {}}}
    assert Hierarchical().score(task(spec), '{"y": 1}', bare).reward == 0.1
    with pytest.raises(RecordError, match="bad_spec"):
        Hierarchical().score(task(spec), '{"x": 1}', bare)


def test_levels_may_be_left_out_but_not_all(bare: Context) -> None:
    two = {key: LEVELS[key] for key in ("valid", "semantic")}
    assert Hierarchical(valid_reward=0.5).score(task(two), '{"x": 6}', bare).reward == 0.5
    with pytest.raises(RecordError, match="parse or valid"):
        Hierarchical().score(task({"semantic": LEVELS["semantic"]}), "1", bare)
    nested = {**LEVELS, "semantic": {"use": "hierarchical", "spec": LEVELS}}
    with pytest.raises(RecordError, match="cannot be a part"):
        Hierarchical().score(task(nested), '{"x": 7}', bare)
    with pytest.raises(ValueError, match="must hold"):
        Hierarchical(parse_reward=0.5, valid_reward=0.5)


def test_such_a_task_proves_itself(bare: Context) -> None:
    assert prove(task(LEVELS, '{"x": 7}'), bare).ok
    assert prove(task(LEVELS, '{"x": 6}'), bare).reason == "gold_fails"
