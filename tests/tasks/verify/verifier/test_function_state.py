"""Final states: any way there is right, and nothing but the declared functions can change anything."""

import json
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from schemas.trajectory import Step, ToolCall, Trajectory, text_part
from schemas.vocabulary import Source, Trust
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.function_state import FunctionState

SOURCE = """
def book(state, room, guest):
    if state["rooms"][room] is not None:
        raise ValueError("taken")
    state["rooms"][room] = guest
    state["log"].append(["book", room])
    return "ok"

def free(state, room):
    state["rooms"][room] = None
    state["log"].append(["free", room])

def spin(state):
    while True:
        pass

def forge(state):
    state["rooms"]["12"] = float("nan")

def hidden(state):
    state["rooms"]["12"] = "Ada"
"""
SPEC: dict[str, Any] = {
    "source": SOURCE,
    "functions": ["book", "free", "spin", "forge"],
    "state": {"rooms": {"12": None, "14": "Bob"}, "log": []},
    "final": {"rooms": {"12": "Ada", "14": "Bob"}, "log": []},
    "ignored": ["log"],
}
GOLD_CALLS = [{"name": "book", "arguments": {"room": "12", "guest": "Ada"}}]


def task(gold: str | None = None, **changes: Any) -> Task:
    spec = {key: value for key, value in {**SPEC, **changes}.items() if value is not None}
    return Task(
        id="a", kind="x", prompt=(), verifier=VerifierSpec(use="function_state", spec_json=json.dumps(spec)), gold=gold
    )


def judged(ctx: Context, answer: str, **changes: Any) -> tuple[str, str]:
    found = FunctionState(timeout_s=2, cpu_s=1).score(task(**changes), answer, ctx)
    assert found.trust is Trust.OUTSIDE
    return found.kind.value, json.loads(found.evidence_json)["reason"]


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        ("book(room='12', guest='Ada')", "pass", "pass"),
        ("book('12', 'Ada')", "pass", "pass"),
        ("[book('12', 'Bob'), free('12'), book('12', 'Ada')]", "pass", "pass"),
        ("[book('14', 'Ada'), book('12', 'Ada')]", "pass", "pass"),
        (json.dumps(GOLD_CALLS), "pass", "pass"),
        ("book('12', 'Bob')", "fail", "wrong_state"),
        ("[book('12', 'Ada'), free('14')]", "fail", "wrong_state"),
        ("book('99', 'Ada')", "fail", "wrong_state"),
        ("hidden()", "fail", "unknown_function"),
        ("__import__('os').system('x')", "fail", "unknown_function"),
        ("_gm_play({}, [])", "fail", "unknown_function"),
        ("spin()", "timeout", "cpu"),
        ("forge()", "fail", "not_json"),
        ("[" + ", ".join(["free('12')"] * 201) + "]", "fail", "too_many_calls"),
        ("I booked it.", "unparsable", "no_call"),
        ("", "unparsable", "no_call"),
    ],
)
def test_the_final_state_decides(bare: Context, answer: str, kind: str, reason: str) -> None:
    found = judged(bare, answer)
    assert found[0] == kind
    # Which clock is first depends on how busy the machine is.
    assert found[1] == reason or kind == "timeout"


def test_gold_calls_lead_to_the_state(bare: Context) -> None:
    by_calls = {"final": None, "gold_calls": GOLD_CALLS}
    assert judged(bare, "[free('14'), book('12', 'Ada'), book('14', 'Bob')]", **by_calls) == ("pass", "pass")
    assert judged(bare, "book('12', 'Eve')", **by_calls) == ("fail", "wrong_state")
    with pytest.raises(RecordError, match="gold calls fail"):
        judged(bare, "free('12')", final=None, gold_calls=[{"name": "book", "arguments": {"room": "14", "guest": "A"}}])


def test_calls_that_raise_may_be_forbidden(bare: Context) -> None:
    answer = "[book('14', 'Ada'), book('12', 'Ada')]"
    assert judged(bare, answer, errors=False) == ("fail", "call_raised")


def test_where_nothing_may_change_saying_so_is_right(bare: Context) -> None:
    idle = {"final": SPEC["state"]}
    assert judged(bare, "All rooms are as they should be.", **idle) == ("pass", "pass")
    assert judged(bare, "", **idle) == ("unparsable", "no_call")


def test_such_tasks_prove_themselves(bare: Context) -> None:
    assert prove(task(json.dumps(GOLD_CALLS)), bare, runs=2).ok
    assert prove(task("free('14')"), bare, runs=1).reason == "gold_fails"
    for bad in ({"final": None}, {"gold_calls": GOLD_CALLS}, {"functions": []}):
        assert prove(task("free('14')", **bad), bare, runs=1).reason == "bad_spec"


def test_a_trajectorys_tool_calls_are_what_is_played(bare: Context) -> None:
    def step(number: int, arguments: str) -> Step:
        call = ToolCall(id=f"s{number}c0", name="book", arguments=arguments, arguments_json=arguments)
        return Step(source=Source.AGENT, tool_calls=(call,))

    good = json.dumps(GOLD_CALLS[0]["arguments"])
    trajectory = Trajectory(
        id="t",
        steps=(
            step(0, '{"room":"14","guest":"Ada"}'),
            step(1, good),
            Step(source=Source.AGENT, content=text_part("Done.")),
        ),
    )
    assert FunctionState().check(task(), trajectory, bare).kind.value == "pass"
