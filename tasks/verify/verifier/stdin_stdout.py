"""Runs a whole program on hidden inputs and compares what it prints (as programming contests do).

A task's specification (JSON):

    {"tests": [{"stdin": "1 2\\n", "expected": "3\\n"}], "compare": "tokens", "tolerance": 1e-6, "timeout_s": 5}

compare: tokens (words, white space does not matter), lines (trailing white space does not matter), exact.
Each test runs in a fresh jail and sees its own input only; the comparison happens outside.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from schemas.errors import RecordError
from schemas.ids import digest
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import VerdictKind
from tasks.sandbox.results import Limits, RunKind
from tasks.verify.base import Judgement, Verifier, infrastructure, passed, spec_of, unparsable
from tasks.verify.extract import python_code

if TYPE_CHECKING:
    from tasks.context import Context

_KINDS = {
    RunKind.TIMEOUT: VerdictKind.TIMEOUT,
    RunKind.CPU: VerdictKind.TIMEOUT,
    RunKind.MEMORY: VerdictKind.MEMORY,
    RunKind.REFUSED: VerdictKind.REFUSED,
}


class Case(Base, frozen=True):
    """One hidden input and the output that it must give."""

    expected: str
    stdin: str = ""


class Spec(Base, frozen=True):
    """The tests and how outputs are compared; limits left out are the verifier's own."""

    tests: list[Case]
    compare: Literal["tokens", "lines", "exact"] = "tokens"
    tolerance: float | None = None
    timeout_s: float | None = None
    cpu_s: float | None = None
    memory_mb: int | None = None
    packages: list[str] = []


class StdinStdout(Verifier, frozen=True, kw_only=True):
    """Runs the candidate's program on every input; all outputs must be right. Stops at the first wrong one.

    timeout_s, cpu_s, memory_mb: limits where the task names none.
    """

    timeout_s: float = 10.0
    cpu_s: float = 5.0
    memory_mb: int = 512

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Extracts the program, runs it on each input, compares outside."""
        return self._judge(task, completion, ctx, 0)

    def rejudge(self, task: Task, completion: str, ctx: "Context", run: int) -> Judgement:
        """With another hash seed."""
        return self._judge(task, completion, ctx, run)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, an early exit, the input itself, and an object whose text is every text."""
        return {
            "empty": "",
            "exit": "```python\nimport os\nos._exit(0)\n```",
            "echo": "```python\nimport sys\nprint(sys.stdin.read())\n```",
            "passed": "```python\nprint('PASSED')\n```",
        }

    def _judge(self, task: Task, completion: str, ctx: "Context", hash_seed: int) -> Judgement:
        spec = spec_of(task, Spec)
        if not spec.tests:
            raise RecordError("bad_spec", "stdin_stdout: no tests")
        code = python_code(completion)
        if code is None:
            return unparsable("no_code")
        longest = max(len(test.expected) for test in spec.tests)
        limits = Limits(
            wall_s=spec.timeout_s or self.timeout_s,
            cpu_s=spec.cpu_s or self.cpu_s,
            memory_mb=spec.memory_mb or self.memory_mb,
            output_kb=max(256, longest // 128),
            hash_seed=hash_seed,
        )
        evidence: dict[str, Any] = {
            "tests": len(spec.tests),
            "code_sha": digest(code),
            "mode": ctx.sandbox.mode,
            "sandbox": ctx.sandbox.version(spec.packages),
        }
        for index, test in enumerate(spec.tests):
            ran = ctx.sandbox.run_python(code, stdin=test.stdin, limits=limits, packages=spec.packages)
            if ran.kind is RunKind.INFRASTRUCTURE:
                return infrastructure(ran.reason, ran.detail)
            right = ran.kind is RunKind.OK and same_output(spec, test.expected, ran.stdout)
            if not right:
                kind = _KINDS.get(ran.kind, VerdictKind.FAIL)
                reason = "wrong_output" if ran.kind is RunKind.OK else ran.reason
                seen = {"passed": index, "test": index, "output": ran.stdout[-300:], "errors": ran.stderr[-500:]}
                return Judgement(kind, 0.0, reason, {**evidence, **seen})
        return passed({**evidence, "passed": len(spec.tests)})


def same_output(spec: Spec, expected: str, printed: str) -> bool:
    """Whether the output is the expected one, as `compare` says; numbers may differ by the tolerance."""
    if spec.compare == "exact":
        return printed == expected
    if spec.compare == "lines":
        return _lines(printed) == _lines(expected)
    left, right = expected.split(), printed.split()
    return len(left) == len(right) and all(
        want == got or _near(want, got, spec.tolerance) for want, got in zip(left, right, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _near(want: str, got: str, tolerance: float | None) -> bool:
    if tolerance is None or len(got) > 400:
        return False
    try:
        wanted, given = float(want), float(got)
    except ValueError:
        return False
    # False for NaN on either side, and infinity is near nothing else.
    return abs(wanted - given) <= tolerance * max(1.0, abs(wanted))
