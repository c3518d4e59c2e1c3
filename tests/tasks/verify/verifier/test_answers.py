"""Verifiers that judge text: answers, schemas, calls, mathematics, composites."""

# ruff: noqa: E501

import json
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.rows import Verdict
from schemas.task import Task, VerifierSpec
from schemas.trajectory import Step, ToolCall, Trajectory, text_part
from schemas.vocabulary import ArgumentState, Source, Trust, VerdictKind
from tasks.context import Context
from tasks.verify.base import Verifier
from tasks.verify.proof import prove
from tasks.verify.verifier.answer_check import AnswerCheck
from tasks.verify.verifier.composite import Composite
from tasks.verify.verifier.function_calls import FunctionCalls
from tasks.verify.verifier.math_equivalence import MathEquivalence
from tasks.verify.verifier.schema import Schema
from tasks.verify.verifier.stdin_stdout import Spec as StdinSpec
from tasks.verify.verifier.stdin_stdout import StdinStdout, same_output


def task(use: str, spec: dict[str, Any], gold: str | None = None) -> Task:
    return Task(id=use, kind="x", prompt=(), verifier=VerifierSpec(use=use, spec_json=json.dumps(spec)), gold=gold)


def judge(ctx: Context, verifier: Verifier, spec: dict[str, Any], answer: str) -> tuple[str, float | None, str]:
    found: Verdict = verifier.score(task(verifier.plugin_id(), spec), answer, ctx)
    return found.kind.value, found.reward, json.loads(found.evidence_json)["reason"]


PARIS = {"answers": ["Paris", "Paris, France"]}
LENGTH = {"answers": ["12.5"], "mode": "numeric", "tolerance": 0.01, "units": {"km": 1, "m": 0.001}}


@pytest.mark.parametrize(
    ("spec", "answer", "kind", "reason"),
    [
        (PARIS, "The answer is: the Paris.", "pass", "pass"),
        (PARIS, "paris FRANCE", "pass", "pass"),
        (PARIS, "London", "fail", "wrong"),
        (PARIS, "Paris or London", "fail", "wrong"),
        (PARIS, "I don't know.", "fail", "abstained"),
        (PARIS, "", "unparsable", "no_answer"),
        (PARIS, "x" * 6000, "unparsable", "too_long"),
        ({"unanswerable": True}, "This cannot be determined.", "pass", "abstained"),
        ({"unanswerable": True}, "42", "fail", "answered_the_unanswerable"),
        (LENGTH, "12.5 km", "pass", "pass"),
        (LENGTH, "the way is 12,500 m", "pass", "pass"),
        (LENGTH, "12.5", "fail", "wrong_unit"),
        (LENGTH, "12.5 miles", "fail", "wrong_unit"),
        (LENGTH, "13 km", "fail", "wrong"),
        (LENGTH, "far", "unparsable", "no_number"),
        ({"answers": ["0.1"], "mode": "numeric"}, "1/10", "pass", "pass"),
        ({"answers": ["5"], "mode": "numeric"}, "2 + 3 = 5", "pass", "pass"),
        ({"answers": ["5"], "mode": "numeric"}, "1e999999", "unparsable", "no_number"),
        ({"answers": ["5"], "mode": "numeric"}, "5/0", "unparsable", "no_number"),
        ({"answers": ["the red fox"], "mode": "f1"}, "Red fox!", "pass", "pass"),
    ],
)
def test_answer_check(bare: Context, spec: dict[str, Any], answer: str, kind: str, reason: str) -> None:
    found = judge(bare, AnswerCheck(), spec, answer)
    assert (found[0], found[2]) == (kind, reason)
    assert found[1] == (1.0 if kind == "pass" else 0.0)


def test_overlap_of_words_and_abstention_may_be_worth_something(bare: Context) -> None:
    found = judge(bare, AnswerCheck(threshold=0.9), {"answers": ["the quick red fox"], "mode": "f1"}, "red fox")
    assert found[1] == pytest.approx(0.8)
    assert judge(bare, AnswerCheck(abstain_reward=0.2), PARIS, "I don't know")[1] == 0.2


def test_answer_tasks_prove_themselves(bare: Context) -> None:
    assert prove(task("answer_check", PARIS, "Paris"), bare).ok
    assert prove(task("answer_check", {"answers": ["xyzzy plugh"]}, "xyzzy plugh"), bare).ok
    assert prove(task("answer_check", {}, "x"), bare).reason == "bad_spec"


MATH = [
    ("\\frac{1}{2}", "0.5", True),
    ("1/3", "0.333", True),
    ("1/3", "0.3", False),
    ("\\frac13", "\\dfrac{1}{3}", True),
    ("0.25", "1/4", True),
    ("{1,2}", "{2,1}", True),
    ("\\{1, 2\\}", "\\{2, 1, 3\\}", False),
    ("\\text{A}", "A", True),
    ("A", "(B)", False),
    ("[0,1)", "[0, 1)", True),
    ("[0,1)", "(0,1)", False),
    ("(1,2)", "(2,1)", False),
    ("x^2+2x+1", "(x+1)^2", True),
    ("\\sqrt{8}", "2\\sqrt{2}", True),
    ("50\\%", "0.5", True),
    ("1,000", "1000", True),
    ("2", "2.0000001", False),
    ("2^{10}", "1024", True),
    ("7", "9^{99999}", False),
    ("7", "2**2**2**2**9", False),
    ("7", "xyzzy", False),
    ("7", "0/0", False),
]


@pytest.mark.parametrize(("gold", "answer", "same"), MATH)
def test_mathematics(bare: Context, gold: str, answer: str, same: bool) -> None:
    pytest.importorskip("math_verify")
    kind, reward, _ = judge(bare, MathEquivalence(), {"answer": gold}, f"So it is $\\boxed{{{answer}}}$.")
    assert (kind, reward) == (("pass", 1.0) if same else ("fail", 0.0))


SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("spec", "answer", "kind", "reward", "reason"),
    [
        ({"schema": SHAPE}, '{"n": 3}', "pass", 1.0, "pass"),
        ({"schema": SHAPE, "expected": {"n": 3}}, '```json\n{"n": 3}\n```', "pass", 1.0, "pass"),
        ({"schema": SHAPE, "expected": {"n": 3}}, '{"n": 4}', "fail", 0.5, "wrong_value"),
        ({"schema": SHAPE}, '{"n": "3"}', "fail", 0.1, "invalid"),
        ({"schema": SHAPE}, '{"n": 3', "unparsable", 0.0, "not_json"),
        ({"schema": SHAPE}, '{"n": NaN}', "unparsable", 0.0, "not_json"),
        ({"schema": {"type": "array"}}, "[" * 5000 + "]" * 5000, "unparsable", 0.0, "not_json"),
        ({"schema": SHAPE}, "no", "fail", 0.0, ""),
        (
            {"schema": {"type": "string", "pattern": "^(a+)+$"}},
            '"' + "a" * 40 + 'b"',
            "timeout",
            0.0,
            "validation_timeout",
        ),
    ],
)
def test_schema(bare: Context, spec: dict[str, Any], answer: str, kind: str, reward: float, reason: str) -> None:
    found = judge(bare, Schema(parse_reward=0.1, valid_reward=0.5, timeout_s=2), spec, answer)
    if answer == "no":
        assert found[0] == "unparsable"
        return
    assert found == (kind, reward, reason)


def test_schema_options_and_specifications_are_checked(bare: Context) -> None:
    with pytest.raises(ValueError, match="parse_reward"):
        Schema(parse_reward=0.9, valid_reward=0.1)
    with pytest.raises(RecordError, match="bad_spec"):
        judge(bare, Schema(), {"schema": {"type": "nonsense"}}, "{}")
    assert prove(task("schema", {"schema": {"type": "object"}}, '{"a": 1}'), bare).reason == "cheat_passes:object"


WEATHER = {
    "calls": [
        {"name": "get_weather", "arguments": {"city": ["Paris", "Paris, France"], "unit": ["celsius", None]}},
        {"name": "get_weather", "arguments": {"city": ["Rome", "Paris"]}},
    ],
    "order_of_parameters": {"get_weather": ["city", "unit"]},
}


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        ('[get_weather(city="Paris"), get_weather(city="Rome")]', "pass", "pass"),
        ('[get_weather(city="Rome"), get_weather(city="Paris", unit="celsius")]', "pass", "pass"),
        ('[get_weather(city="Paris"), get_weather(city="Paris, France")]', "pass", "pass"),
        ('[get_weather("Paris"), get_weather("Rome")]', "pass", "pass"),
        ('[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_weather", "parameters": {"city": "Rome"}}]', "pass", "pass"),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>\n<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\"}"}</tool_call>', "pass", "pass"),
        ('```python\n[get_weather(city="Paris"), get_weather(city="Rome")]\n```', "pass", "pass"),
        ('[get_weather(city="Paris")]', "fail", "number_of_calls"),
        ('[get_weather(city="Oslo"), get_weather(city="Rome")]', "fail", "wrong_argument"),
        ('[get_weather(city="Paris", unit=None), get_weather(city="Rome")]', "pass", "pass"),
        ('[get_weather(city="Paris", day=1), get_weather(city="Rome")]', "fail", "unknown_argument"),
        ('[get_weather(unit="celsius"), get_weather(city="Rome")]', "fail", "missing_argument"),
        ('[get_time(city="Paris"), get_weather(city="Rome")]', "fail", "wrong_function"),
        ('[get_weather(city=open("/etc/passwd").read()), get_weather(city="Rome")]', "unparsable", "no_call"),
        ("I cannot help.", "unparsable", "no_call"),
        ("(" * 9000 + ")" * 9000, "unparsable", None),
        ("-" * 15000 + "1", "unparsable", None),
        ("f" + "(f" * 9000, "unparsable", None),
    ],
)  # fmt: skip
def test_function_calls(bare: Context, answer: str, kind: str, reason: str | None) -> None:
    found = judge(bare, FunctionCalls(), WEATHER, answer)
    assert found[0] == kind, found
    assert reason is None or found[2] == reason


def test_calls_in_order_and_none_at_all(bare: Context) -> None:
    spec = {"calls": [{"name": "a"}, {"name": "b"}], "ordered": True}
    assert judge(bare, FunctionCalls(), spec, "[a(), b()]")[0] == "pass"
    assert judge(bare, FunctionCalls(), spec, "[b(), a()]")[2] == "wrong_function"
    assert judge(bare, FunctionCalls(), {"calls": []}, "Nothing fits.")[:2] == ("pass", 1.0)
    assert judge(bare, FunctionCalls(), {"calls": []}, "f(x=1)")[2] == "unwanted_call"
    loose = {"calls": [{"name": "a", "arguments": {"t": ["New York"]}}]}
    assert judge(bare, FunctionCalls(), loose, 'a(t="new-york")')[0] == "fail"
    assert judge(bare, FunctionCalls(ignore_case=True), loose, 'a(t="new-york")')[0] == "pass"


def test_a_trajectorys_tool_calls_are_its_answer(bare: Context) -> None:
    def call(arguments: str, state: ArgumentState = ArgumentState.PARSED) -> Step:
        parsed = arguments if state is ArgumentState.PARSED else None
        made = ToolCall(id="s0c0", name="a", arguments=arguments, arguments_json=parsed, state=state)
        return Step(source=Source.AGENT, tool_calls=(made,))

    spec = task("function_calls", {"calls": [{"name": "a", "arguments": {"t": [1]}}]})
    said = Step(source=Source.AGENT, content=text_part("done"))
    for steps, kind in (
        ((call('{"t":1}'), said), VerdictKind.PASS),
        ((call('{"t":2}'), said), VerdictKind.FAIL),
        ((call('{"t":1', ArgumentState.TRUNCATED),), VerdictKind.UNPARSABLE),
        ((said,), VerdictKind.UNPARSABLE),
    ):
        assert FunctionCalls().check(spec, Trajectory(id="t", steps=steps), bare).kind is kind


SUM = {"tests": [{"stdin": "1 2\n", "expected": "3\n"}, {"stdin": "5 5\n", "expected": "10"}]}


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        ("print(sum(map(int, input().split())))", "pass", "pass"),
        ("import sys\nsys.stdout.write(str(sum(map(int, sys.stdin.read().split()))))", "pass", "pass"),
        ("print(3)", "fail", "wrong_output"),
        ("import os\nprint(3)\nos._exit(0)", "fail", "wrong_output"),
        ("print(1/0)", "fail", "exited"),
        ("print(3", "fail", "exited"),
        ("import time\nwhile True: time.sleep(1)", "timeout", "wall"),
        ("while True: print('x' * 10000)", "fail", "output_limit"),
    ],
)
def test_programs(bare: Context, code: str, kind: str, reason: str) -> None:
    found = judge(bare, StdinStdout(timeout_s=1.5), SUM, f"```python\n{code}\n```")
    assert (found[0], found[2]) == (kind, reason)


@pytest.mark.parametrize(
    ("compare", "tolerance", "expected", "printed", "same"),
    [
        ("tokens", None, "1 2\n3", "1  2 3\n", True),
        ("tokens", None, "0.3333333", "0.333333", False),
        ("tokens", 1e-5, "0.3333333", "0.333333", True),
        ("tokens", 1e-5, "1", "nan", False),
        ("tokens", 1e9, "1", "inf", False),
        ("tokens", 1e-6, "inf", "5", False),
        ("tokens", 1e-6, "inf", "inf", True),
        ("tokens", 1e-6, "1" * 310, "5", False),
        ("tokens", 1e-6, "10", "1_0", False),
        ("tokens", 1e-6, "1000000007", "1000000008", False),
        ("tokens", 1e-5, "yes", "no", False),
        ("lines", None, "a\nb\n", "a  \nb", True),
        ("lines", None, "a b", "a  b", False),
        ("exact", None, "a\n", "a", False),
    ],
)
def test_outputs(compare: Any, tolerance: float | None, expected: str, printed: str, same: bool) -> None:
    assert same_output(StdinSpec(tests=[], compare=compare, tolerance=tolerance), expected, printed) is same


def test_program_tasks_prove_themselves(bare: Context) -> None:
    gold = "```python\nprint(sum(map(int, input().split())))\n```"
    assert prove(task("stdin_stdout", SUM, gold), bare).ok
    echo = {"tests": [{"stdin": "x", "expected": "x"}]}
    assert prove(task("stdin_stdout", echo, "```python\nprint(input())\n```"), bare).reason == "cheat_passes:echo"


def test_composite_weighs_and_gates(bare: Context) -> None:
    parts = [
        {"use": "schema", "spec": {"schema": SHAPE}, "weight": 1, "gate": True},
        {"use": "answer_check", "spec": {"answers": ['{"n": 3}']}, "weight": 3},
    ]
    assert judge(bare, Composite(), {"parts": parts}, '{"n": 3}') == ("pass", 1.0, "pass")
    assert judge(bare, Composite(), {"parts": parts}, '{"n": 4}') == ("fail", 0.25, "below_threshold")
    assert judge(bare, Composite(), {"parts": parts, "threshold": 0.2}, '{"n": 4}') == ("pass", 0.25, "pass")
    assert judge(bare, Composite(), {"parts": parts}, '{"n": "3"}') == ("fail", 0.0, "gate:schema")
    verdict = Composite().score(task("composite", {"parts": parts}), '{"n": 3}', bare)
    assert verdict.trust is Trust.OUTSIDE
    assert len(json.loads(verdict.evidence_json)["parts"]) == 2


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [{"use": "schema", "weight": -1}],
        [{"use": "schema", "weight": 0}],
        [{"use": "composite"}],
        [{"use": "schema", "options": {"use": "composite"}}],
        [{"use": "nothing_of_that_name"}],
        [{"use": "schema", "options": {"timeout_s": -1}}],
        [{"use": "schema", "options": {"no_option": 1}}],
    ],
)
def test_composites_that_make_no_sense_are_refused(bare: Context, parts: list[dict[str, Any]]) -> None:
    with pytest.raises(RecordError, match="bad_spec"):
        judge(bare, Composite(), {"parts": parts}, "x")
