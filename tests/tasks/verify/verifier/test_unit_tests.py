"""The unit_tests verifier and the proof of tasks, in real jails."""

import json
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Step, Trajectory, text_part
from schemas.vocabulary import Source, Trust, VerdictKind
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.unit_tests import UnitTests

ADD = [
    {"args": [1, 2], "expected": 3},
    {"args": [-1], "kwargs": {"b": 1}, "expected": 0},
    {"args": [5, 5], "expected": 10},
]
GOOD = "```python\ndef add(a, b):\n    return a + b\n```"


def task(tests: list[dict[str, Any]] = ADD, entry: str = "add", gold: str | None = GOOD, **more: Any) -> Task:
    spec = json.dumps({"entry": entry, "tests": tests, **more})
    return Task(
        id=f"{entry}{len(spec)}", kind="code", prompt=(Message(role="user", content="Add."),),
        verifier=VerifierSpec(use="unit_tests", spec_json=spec), gold=gold,
    )  # fmt: skip


def block(code: str) -> str:
    return f"```python\n{code}\n```"


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (GOOD, VerdictKind.PASS, "pass"),
        ("def add(a, b):\n    return a + b", VerdictKind.PASS, "pass"),
        (block("add = lambda a, b: float(a + b)"), VerdictKind.PASS, "pass"),
        (block("def add(a, b): return a - b"), VerdictKind.FAIL, "wrong_value"),
        (block("def add(a, b): return str(a + b)"), VerdictKind.FAIL, "wrong_value"),
        (block("def sub(a, b): return a + b"), VerdictKind.FAIL, "missing"),
        (block("def add(a, b) return a + b"), VerdictKind.FAIL, "syntax"),
        (block("import numpy\ndef add(a, b): return a + b"), VerdictKind.FAIL, "load"),
        (block("def add(a, b): return 1 / 0"), VerdictKind.FAIL, "exception"),
        (block("import time\ndef add(a, b): time.sleep(60)"), VerdictKind.TIMEOUT, "wall"),
        (block("def add(a, b): return bytearray(1 << 40)"), VerdictKind.MEMORY, "memory"),
        (block("import os\ndef add(a, b):\n    os.write(3, b'x' * 100)"), VerdictKind.REFUSED, "forged"),
        ("I would add them.", VerdictKind.UNPARSABLE, "no_code"),
        ("", VerdictKind.UNPARSABLE, "no_code"),
    ],
)
def test_kinds(bare: Context, answer: str, kind: VerdictKind, reason: str) -> None:
    verdict = UnitTests(timeout_s=1.0).score(task(), answer, bare)
    evidence = json.loads(verdict.evidence_json)
    assert (verdict.kind, evidence["reason"]) == (kind, reason), verdict
    assert verdict.reward == (1.0 if kind is VerdictKind.PASS else 0.0)
    assert verdict.trust is Trust.OUTSIDE


def test_the_evidence_says_which_test_failed_and_where_it_ran(bare: Context) -> None:
    verdict = UnitTests().score(task(), block("def add(a, b):\n    print('hm')\n    return 3"), bare)
    evidence = json.loads(verdict.evidence_json)
    assert (evidence["passed"], evidence["tests"], evidence["test"], evidence["detail"]) == (1, 3, 1, "3")
    assert evidence["mode"] in ("cgroup", "watchdog")
    assert evidence["sandbox"] == bare.sandbox.version()
    assert "hm" in evidence["output"]


def test_a_share_of_the_tests_is_a_reward_only_when_asked_for(bare: Context) -> None:
    answer = block("def add(a, b): return 3")
    assert UnitTests().score(task(), answer, bare).reward == 0.0
    partial = UnitTests(partial=True).score(task(), answer, bare)
    assert partial.kind is VerdictKind.FAIL
    assert partial.reward == pytest.approx(1 / 3)


def test_tolerance_and_order_belong_to_the_task(bare: Context) -> None:
    third = block("def add(x): return 0.333333")
    assert UnitTests().score(task([{"args": [1], "expected": 1 / 3}]), third, bare).kind is VerdictKind.FAIL
    assert UnitTests().score(task([{"args": [1], "expected": 1 / 3}], tolerance=1e-5), third, bare).reward == 1.0
    tests = [{"args": [1], "expected": [1, 2, 3]}]
    swapped = block("def add(x): return [3, 1, 2]")
    assert UnitTests().score(task(tests), swapped, bare).kind is VerdictKind.FAIL
    assert UnitTests().score(task(tests, unordered=True), swapped, bare).reward == 1.0


def test_equal_answers_are_judged_once_and_order_is_kept(bare: Context) -> None:
    pairs = [(task(), GOOD), (task(), "no"), (task(), GOOD), (task([{"args": [0, 0], "expected": 1}]), GOOD)]
    verdicts = UnitTests().score_all(pairs, bare)
    assert [each.kind.value for each in verdicts] == ["pass", "unparsable", "pass", "fail"]
    assert verdicts[0] == verdicts[2]


def test_a_run_remembers_what_it_has_judged(bare: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(task(memory_mb=300), GOOD)]
    first = UnitTests().score_all(pairs, bare)

    def never(*_: object) -> None:
        raise AssertionError("judged again")

    monkeypatch.setattr(UnitTests, "judge", never)
    assert UnitTests().score_all(pairs, bare) == first
    with pytest.raises(AssertionError, match="judged again"):
        UnitTests(partial=True).score_all(pairs, bare)


@pytest.mark.parametrize("spec", ["{}", "{", '{"entry": "f", "tests": []}', '{"entry": "f", "tests": [{"arg": 1}]}'])
def test_a_specification_that_cannot_be_used_is_a_bad_record(bare: Context, spec: str) -> None:
    bad = Task(id="b", kind="code", prompt=(), verifier=VerifierSpec(use="unit_tests", spec_json=spec), gold=GOOD)
    with pytest.raises(RecordError, match="bad_spec"):
        UnitTests().score(bad, GOOD, bare)
    assert prove(bad, bare).reason == "bad_spec"


def test_the_answer_of_a_trajectory_is_the_agents_last_definition() -> None:
    def say(source: Source, text: str) -> Step:
        return Step(source=source, content=text_part(text))

    steps = (
        say(Source.USER, GOOD),
        say(Source.AGENT, block("def add(a, b): return 1")),
        say(Source.ENVIRONMENT, block("def add(a, b): return 99")),
        say(Source.AGENT, block("def add(a, b): return 2")),
        say(Source.AGENT, "That is it: " + block("print(add(1, 2))")),
    )
    found = UnitTests().answer(task(), Trajectory(id="t", steps=steps))
    assert "return 2" in found
    assert UnitTests().answer(task(), Trajectory(id="t", steps=steps[:1])) == ""


def test_a_sound_task_proves_itself(bare: Context) -> None:
    proof = prove(task(), bare)
    assert proof.ok and proof.reason == "ok"
    assert {"empty", "exit", "always_equal", "stub"} <= set(proof.evidence["refused"])


FIRST = [{"args": [1, 2], "expected": 1}, {"args": [2, 1], "expected": 2}]
ANY_DIGIT = block("def add(a, b): return list({str(i) for i in range(10)})[0]")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (task(gold=None), "no_gold"),
        (task(gold=block("def add(a, b): return a * b")), "gold_fails"),
        (task([{"args": [1, 2], "expected": None}], gold=block("def add(a, b): pass")), "cheat_passes:stub"),
        (task(FIRST, gold=block("def add(a, b): return a")), "cheat_passes:echo"),
        (task([{"args": [5, 2], "expected": "9"}], gold=ANY_DIGIT), "flaky"),
    ],
)
def test_an_unsound_task_is_found_out(bare: Context, broken: Task, reason: str) -> None:
    if reason == "flaky":
        seeds = {}
        for seed in range(8):
            found = UnitTests().rejudge(broken, broken.gold or "", bare, seed)
            seeds[seed] = found.kind is VerdictKind.PASS
        proof = prove(broken, bare, runs=8)
        assert proof.reason == ("flaky" if any(seeds.values()) and not all(seeds.values()) else "gold_fails")
        return
    proof = prove(broken, bare)
    assert not proof.ok
    assert proof.reason == reason, proof
