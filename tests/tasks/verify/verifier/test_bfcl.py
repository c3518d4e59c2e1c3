"""Gold and wrong calls of the Berkeley function-calling data, where the package `bfcl-eval` is installed.

pip install --no-deps -r requirements-checks.lock    (.ci/run does it; only its data is read)
"""

import itertools
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from schemas.task import Task, VerifierSpec
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.function_calls import FunctionCalls

_FOUND = find_spec("bfcl_eval")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(_FOUND is None, reason="bfcl-eval is not installed")]
# Their leader board compares texts like this too.
JUDGE = FunctionCalls(ignore_case=True)
NAMES = ("simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple", "live_parallel")
_MOST = 200


def rows(name: str) -> list[list[dict[str, Any]]]:
    """The ground truth of one category: per row the calls, each {name: {argument: accepted values}}."""
    assert _FOUND is not None and _FOUND.origin
    file = Path(_FOUND.origin).parent / "data" / "possible_answer" / f"BFCL_v4_{name}.json"
    return [json.loads(line)["ground_truth"] for line in file.read_text(encoding="utf-8").splitlines()]


def forms(value: Any) -> Iterator[Any]:
    """The values that one accepted value stands for: in their objects each key lists accepted values in turn."""
    if isinstance(value, dict):
        choices = []
        for key, accepted in value.items():
            several = accepted if isinstance(accepted, list) else [accepted]
            choices.append([(key, form) for each in several for form in ([None] if each == "" else forms(each))])
        for chosen in itertools.product(*choices):
            yield {key: form for key, form in chosen if form is not None}
    elif isinstance(value, list):
        yield from (list(chosen) for chosen in itertools.product(*(list(forms(each)) for each in value)))
    else:
        yield value


def specification(row: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The row as calls of a specification.

    An argument may be left out where an empty text, or nothing at all, is accepted.
    """
    calls = []
    for call in row:
        ((name, arguments),) = call.items()
        accepted = {key: _accepted(values) or [None] for key, values in arguments.items()}
        calls.append({"name": name, "arguments": accepted})
    return calls


def _accepted(values: list[Any]) -> list[Any]:
    return [form for value in values for form in ([None] if value == "" else itertools.islice(forms(value), _MOST))]


def gold(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first accepted value of each argument that may not be left out."""
    return [
        {"name": call["name"], "arguments": {k: v[0] for k, v in call["arguments"].items() if v and None not in v}}
        for call in calls
    ]


def wrong(calls: list[dict[str, Any]], right: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Answers that must not pass: another function, a call less or more, an argument less, more or of no such value."""
    first = right[0]
    yield [{**first, "name": first["name"] + "_x"}, *right[1:]]
    yield [*right, {"name": "another_function", "arguments": {}}]
    yield [*right, first]
    if len(right) > 1:
        yield right[1:]
    yield [{**first, "arguments": {**first["arguments"], "no_such_argument": 1}}, *right[1:]]
    for key in first["arguments"]:
        yield [{**first, "arguments": {k: v for k, v in first["arguments"].items() if k != key}}, *right[1:]]
        yield [{**first, "arguments": {**first["arguments"], key: {"surely": "not this"}}}, *right[1:]]


def task(calls: list[dict[str, Any]], answer: str) -> Task:
    return Task(
        id="a", kind="calls", prompt=(), gold=answer,
        verifier=VerifierSpec(use="function_calls", spec_json=json.dumps({"calls": calls})),
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_gold_calls_pass_and_wrong_ones_do_not(bare: Context, name: str) -> None:
    n_gold = n_wrong = 0
    for row in rows(name):
        calls = specification(row)
        right = gold(calls)
        one = task(calls, json.dumps(right))
        assert JUDGE.judge(one, json.dumps(right), bare).reward == 1.0, row
        assert JUDGE.judge(one, json.dumps(right[::-1]), bare).reward == 1.0, row
        n_gold += 1
        for other in wrong(calls, right):
            assert JUDGE.judge(one, json.dumps(other), bare).reward == 0.0, (row, other)
            n_wrong += 1
    assert n_gold >= 16
    assert n_wrong > 3 * n_gold


def test_such_tasks_prove_themselves(bare: Context) -> None:
    for row in rows("parallel_multiple")[:10]:
        calls = specification(row)
        assert prove(task(calls, json.dumps(gold(calls))), bare, runs=1).ok
