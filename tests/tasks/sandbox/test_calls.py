"""Calls of a candidate's functions: values, order, kinds, limits."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import UserError
from tasks.sandbox.results import Call, CallResult, Limits, RunKind
from tasks.sandbox.sandbox import DEFAULT, Sandbox

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def one(box: Sandbox, code: str, *args: Any, limits: Limits = DEFAULT) -> CallResult:
    return box.call_functions(code, [Call(entry="f", args=args)], limits).results[0]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(JSON, min_size=1, max_size=30))
def test_json_values_go_in_and_come_out_unchanged(box: Sandbox, values: list[Any]) -> None:
    ran = box.call_functions("def f(x): return x", [Call(entry="f", args=[value]) for value in values])
    assert ran.kind is RunKind.OK
    got = [each.value for each in ran.results]
    assert repr(got) == repr(values)


def test_results_keep_the_order_of_the_calls_and_forget_between_them(box: Sandbox) -> None:
    code = "seen = []\ndef f(x):\n    seen.append(x)\n    return seen"
    ran = box.call_functions(code, [Call(entry="f", args=[i]) for i in range(5)])
    assert [each.value for each in ran.results] == [[0], [1], [2], [3], [4]]


def test_keyword_arguments_dotted_names_tuples_and_subclasses(box: Sandbox) -> None:
    code = (
        "import collections\nclass Solution:\n    @staticmethod\n    def run(a, *, b): return (a, b)\n"
        "def f(x): return collections.OrderedDict(a=collections.Counter('aab'), b=(x, (x,)))"
    )
    calls = [Call(entry="Solution.run", args=[1], kwargs={"b": 2}), Call(entry="f", args=[3])]
    assert [each.value for each in box.call_functions(code, calls).results] == [
        [1, 2],
        {"a": {"a": 2, "b": 1}, "b": [3, [3]]},
    ]


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        ("def g(x): return x", RunKind.ERROR, "missing"),
        ("def f(x): return 1 / 0", RunKind.ERROR, "exception"),
        ("def f(x): return {1: 2}", RunKind.ERROR, "not_json"),
        ("def f(x): return object()", RunKind.ERROR, "not_json"),
        ("def f(x): return float('nan')", RunKind.ERROR, "not_json"),
        ("def f(x): return 'x' * 2000000", RunKind.ERROR, "too_large"),
        ("def f(x): raise MemoryError", RunKind.MEMORY, "memory"),
        ("def f(x", RunKind.ERROR, "syntax"),
        ("raise ValueError('no')", RunKind.ERROR, "load"),
        ("import os\nos._exit(3)", RunKind.ERROR, "exited"),
        ("import os\ndef f(x): os._exit(3)", RunKind.ERROR, "exited"),
        ("import os\ndef f(x): os._exit(0)", RunKind.ERROR, "exited"),
        ("import os\ndef f(x): os.abort()", RunKind.ERROR, "signal"),
        ("x = bytearray(1 << 40)\ndef f(x): return 1", RunKind.MEMORY, "load"),
    ],
)
def test_each_end_has_its_kind(box: Sandbox, code: str, kind: RunKind, reason: str) -> None:
    found = one(box, code, 1)
    assert (found.kind, found.reason) == (kind, reason), found


def test_wall_clock_and_cpu_are_told_apart(box: Sandbox) -> None:
    limits = Limits(wall_s=0.5, cpu_s=5)
    assert one(box, "import time\ndef f(x): time.sleep(60)", 1, limits=limits).kind is RunKind.TIMEOUT
    assert one(box, "def f(x):\n    while True: pass", 1, limits=Limits(wall_s=30, cpu_s=1)).kind is RunKind.CPU


@pytest.mark.parametrize("code", ["import time\ntime.sleep(60)", "import signal, time\nsignal.pause()"])
def test_loading_has_a_wall_clock_limit_too(box: Sandbox, code: str) -> None:
    start = time.monotonic()
    ran = box.call_functions(code, [Call(entry="f")] * 3, Limits(wall_s=0.5))
    assert time.monotonic() - start < 20
    assert [each.kind for each in ran.results] == [RunKind.TIMEOUT, RunKind.SKIPPED, RunKind.SKIPPED]


def test_loading_has_a_cpu_limit_too(box: Sandbox) -> None:
    ran = box.call_functions("while True: pass", [Call(entry="f")], Limits(wall_s=30, cpu_s=1))
    assert ran.kind is RunKind.CPU


def test_after_a_timeout_the_rest_is_skipped_unless_told_otherwise(box: Sandbox) -> None:
    code = "import time\ndef f(x):\n    time.sleep(x)\n    return x"
    calls = [Call(entry="f", args=[x]) for x in (0, 30, 0)]
    limits = Limits(wall_s=0.5)
    stopped = box.call_functions(code, calls, limits)
    assert [each.kind for each in stopped.results] == [RunKind.OK, RunKind.TIMEOUT, RunKind.SKIPPED]
    going = box.call_functions(code, calls, limits, stop_on_timeout=False)
    assert [each.kind for each in going.results] == [RunKind.OK, RunKind.TIMEOUT, RunKind.OK]


def test_total_time_bounds_all_calls_together(box: Sandbox) -> None:
    code = "import time\ndef f(): time.sleep(0.4)"
    ran = box.call_functions(code, [Call(entry="f")] * 100, Limits(wall_s=5, total_s=1.5))
    kinds = [each.kind for each in ran.results]
    assert kinds[0] is RunKind.OK and RunKind.TIMEOUT in kinds and kinds[-1] is RunKind.SKIPPED


def test_printing_never_mixes_with_results(box: Sandbox) -> None:
    ran = box.call_functions(
        "def f(x):\n    print('hello', x)\n    return x", [Call(entry="f", args=[i]) for i in (1, 2)]
    )
    assert [each.value for each in ran.results] == [1, 2]
    assert ran.output == "hello 1\nhello 2\n"


def test_sets_and_random_numbers_are_the_same_in_every_run(box: Sandbox) -> None:
    code = "import random\ndef f(): return list({str(i) for i in range(50)}) + [random.random()]"
    first, second = (box.call_functions(code, [Call(entry="f")]).results[0].value for _ in range(2))
    assert first == second
    assert one(box, code.replace("f()", "f(x)"), 0, limits=Limits(hash_seed=7)).value != first


def test_helper_modules_may_lie_beside_the_code(box: Sandbox) -> None:
    code = "import helper\ndef f(): return helper.VALUE"
    ran = box.call_functions(code, [Call(entry="f")], files={"helper.py": "VALUE = 3"})
    assert ran.results[0].value == 3


def test_no_calls_only_load(box: Sandbox) -> None:
    assert box.call_functions("x = 1", []).kind is RunKind.OK
    assert box.call_functions("1 / 0", []).kind is RunKind.ERROR


@pytest.mark.parametrize("bad", [object(), {1, 2} and object(), lambda: 1])
def test_inputs_that_are_no_data_are_the_users_mistake(box: Sandbox, bad: object) -> None:
    with pytest.raises(UserError):
        one(box, "def f(x): return 1", bad)


def test_large_inputs_and_outputs_pass(box: Sandbox) -> None:
    data = list(range(200_000))
    found = one(box, "def f(x): return x[::-1]", data, limits=Limits(value_kb=4096))
    assert found.value == data[::-1]


def test_many_threads_share_the_slots(box: Sandbox) -> None:
    def run(number: int) -> Any:
        return one(box, f"def f(x): return x + {number}", 1).value

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(run, range(18))) == [number + 1 for number in range(18)]


def test_the_version_names_interpreter_and_backend(box: Sandbox) -> None:
    assert box.version().startswith("cpython-3.")
    assert "bubblewrap" in box.version()
    assert box.mode in ("cgroup", "watchdog")
