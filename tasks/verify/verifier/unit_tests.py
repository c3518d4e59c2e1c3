"""Runs a candidate's function in the sandbox and compares what it returns with expected values kept outside.

A task's specification (JSON):

    {"entry": "add", "tests": [{"args": [1, 2], "expected": 3}, {"args": [1], "kwargs": {"b": 2}, "expected": 3}],
     "tolerance": 1e-6, "timeout_s": 5, "cpu_s": 5, "memory_mb": 512, "unordered": false, "packages": ["numpy"]}

Only arguments go into the jail; JSON values come out; the comparison happens here (trust: outside).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemas.errors import RecordError
from schemas.ids import digest
from schemas.task import Task
from schemas.trajectory import Base, Trajectory
from schemas.vocabulary import VerdictKind
from tasks.sandbox.results import Call, CallResults, Limits, RunKind
from tasks.verify.answers.compare import equal
from tasks.verify.answers.extract import defines, python_code
from tasks.verify.base import Judgement, agent_messages, infrastructure, last_message, spec_of, unparsable
from tasks.verify.execution import ExecutionVerifier
from tasks.verify.ranges import Megabytes, Seconds, Tolerance

if TYPE_CHECKING:
    from tasks.context import Context

_ALWAYS_EQUAL = """
class Always(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __call__(self, *args, **kwargs): return self
    def __getattr__(self, name): return self
    def __iter__(self): return iter(())
    def __len__(self): return 0
    def __repr__(self): return "0"
{entry} = Always()
"""
_KINDS = {
    RunKind.TIMEOUT: VerdictKind.TIMEOUT,
    RunKind.CPU: VerdictKind.TIMEOUT,
    RunKind.MEMORY: VerdictKind.MEMORY,
    RunKind.REFUSED: VerdictKind.REFUSED,
}


class Case(Base, frozen=True):
    """One test: JSON arguments and the JSON value that must come back."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    expected: Any = None


class Spec(Base, frozen=True):
    """What a task says about its tests. Limits left out are the verifier's own."""

    entry: str
    tests: list[Case]
    tolerance: Tolerance | None = None
    unordered: bool = False
    timeout_s: Seconds | None = None
    cpu_s: Seconds | None = None
    memory_mb: Megabytes | None = None
    packages: list[str] = []


class UnitTests(ExecutionVerifier, frozen=True, kw_only=True):
    """Calls the candidate's function with every test's arguments; all results must be right.

    timeout_s, cpu_s, memory_mb: limits where the task names none (wall-clock seconds and CPU seconds of a call).
    partial: a candidate that passes some tests gets their share as reward instead of 0.
    """

    timeout_s: float = 5.0
    cpu_s: float = 3.0
    memory_mb: int = 512
    partial: bool = False

    def subject(self, task: Task, completion: str) -> str | None:
        """The code."""
        return python_code(completion, _spec(task).entry)

    def environment(self, task: Task, ctx: "Context") -> str:
        """Interpreter, packages, backend and mode of the sandbox."""
        return f"{ctx.sandbox.mode}/{ctx.sandbox.version(_spec(task).packages)}"

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Extracts the code, runs every test, compares outside."""
        return self._judge(task, completion, ctx, 0)

    def rejudge(self, task: Task, completion: str, ctx: "Context", run: int) -> Judgement:
        """With another hash seed, so that a result that hangs on the order of a set shows itself."""
        return self._judge(task, completion, ctx, run)

    def answer(self, task: Task, trajectory: Trajectory) -> str:
        """The last agent message whose code defines the function, else the last one."""
        entry = _spec(task).entry
        for text in agent_messages(trajectory):
            code = python_code(text, entry)
            if code is not None and defines(code, entry):
                return text
        return last_message(trajectory)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, an early exit, an object equal to everything, and stubs."""
        entry = _spec(task).entry.partition(".")[0]
        return {
            "empty": "",
            "exit": "```python\nimport os\nos._exit(0)\n```",
            "always_equal": f"```python\n{_ALWAYS_EQUAL.format(entry=entry)}\n```",
            "stub": f"```python\ndef {entry}(*args, **kwargs):\n    return None\n```",
            "echo": f"```python\ndef {entry}(*args, **kwargs):\n    return args[0] if args else None\n```",
        }

    def _judge(self, task: Task, completion: str, ctx: "Context", hash_seed: int) -> Judgement:
        spec = _spec(task)
        code = python_code(completion, spec.entry)
        if code is None:
            return unparsable("no_code")
        limits = Limits(
            wall_s=spec.timeout_s or self.timeout_s,
            cpu_s=spec.cpu_s or self.cpu_s,
            memory_mb=spec.memory_mb or self.memory_mb,
            hash_seed=hash_seed,
        )
        calls = [Call(entry=spec.entry, args=test.args, kwargs=test.kwargs) for test in spec.tests]
        ran = ctx.sandbox.call_functions(code, calls, limits, packages=spec.packages)
        return self._weigh(spec, code, ran, ctx.sandbox.version(spec.packages))

    def _weigh(self, spec: Spec, code: str, ran: CallResults, version: str) -> Judgement:
        if ran.kind is RunKind.INFRASTRUCTURE:
            return infrastructure(ran.reason, ran.detail)
        right = 0
        first: tuple[int, VerdictKind, str, str] | None = None
        for index, (test, got) in enumerate(zip(spec.tests, ran.results, strict=True)):
            good = got.kind is RunKind.OK
            if good and equal(test.expected, got.value, spec.tolerance, unordered=spec.unordered):
                right += 1
            elif first is None:
                kind = _KINDS.get(got.kind, VerdictKind.FAIL)
                first = (index, kind, "wrong_value" if good else got.reason, repr(got.value) if good else got.detail)
        evidence: dict[str, Any] = {
            "passed": right,
            "tests": len(spec.tests),
            "code_sha": digest(code),
            "mode": ran.mode,
            "sandbox": version,
            "cpu_s": round(ran.cpu_s, 3),
            "slowest_s": round(ran.duration_s, 3),
        }
        if first is None:
            return Judgement(VerdictKind.PASS, 1.0, "pass", evidence)
        evidence |= {"test": first[0], "detail": first[3][:300], "output": ran.output[-500:]}
        reward = right / len(spec.tests) if self.partial and first[1] is not VerdictKind.REFUSED else 0.0
        # A test that ran out of time may pass at another moment, which a partial reward would show.
        lasting = not any(got.kind in _KINDS for got in ran.results)
        return Judgement(first[1], reward, first[2], evidence, lasting=lasting)


def _spec(task: Task) -> Spec:
    spec = spec_of(task, Spec)
    if not spec.tests:
        raise RecordError("bad_spec", "unit_tests: no tests")
    return spec
