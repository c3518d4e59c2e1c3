"""Runs a whole program on hidden inputs and compares what it prints (as programming contests do).

A task's specification (JSON):

    {"tests": [{"stdin": "1 2\\n", "expected": "3\\n"}], "compare": "tokens", "tolerance": 1e-6, "timeout_s": 5}

compare: tokens (words, white space does not matter), lines (trailing white space does not matter), exact.
tolerance (tokens): of finite numbers that are not whole; a whole number is met by no other whole number.
language: python (default), sh, bash, javascript; any other by its command line over system binaries:

    "command": {"argv": ["awk", "-f", "{file}"], "tools": ["awk"], "file": "main.awk"}

network: "loopback" lets the program use sockets on its jail's own loopback. Each test runs in a fresh jail and sees
its own input only; the comparison happens outside. A language whose interpreter is not on this machine is an
infrastructure error, never a reward.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from schemas.errors import RecordError, Unavailable, UserError
from schemas.ids import digest
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import VerdictKind
from tasks.sandbox.programs.languages import Command, language
from tasks.sandbox.results import Limits, RunKind, RunResult
from tasks.verify.answers import programs
from tasks.verify.answers.compare import same_number
from tasks.verify.answers.extract import python_code
from tasks.verify.base import Judgement, infrastructure, passed, spec_of, unparsable
from tasks.verify.execution import ExecutionVerifier
from tasks.verify.ranges import Megabytes, Seconds, Tolerance

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
    tolerance: Tolerance | None = None
    timeout_s: Seconds | None = None
    cpu_s: Seconds | None = None
    memory_mb: Megabytes | None = None
    packages: list[str] = []
    language: str = "python"
    command: Command | None = None
    network: Literal["none", "loopback"] = "none"


class StdinStdout(ExecutionVerifier, frozen=True, kw_only=True):
    """Runs the candidate's program on every input; all outputs must be right. Stops at the first wrong one.

    timeout_s, cpu_s, memory_mb: limits where the task names none.
    """

    version: ClassVar[int] = 2

    timeout_s: float = 10.0
    cpu_s: float = 5.0
    memory_mb: int = 512

    def subject(self, task: Task, completion: str) -> str | None:
        """The program."""
        return _code(_command(spec_of(task, Spec)), completion)

    def environment(self, task: Task, ctx: "Context") -> str:
        """Interpreter, packages, backend and mode of the sandbox."""
        spec = spec_of(task, Spec)
        command = _command(spec)
        return f"{ctx.sandbox.mode}/{ctx.sandbox.version(spec.packages, command.present() if command else ())}"

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Extracts the program, runs it on each input, compares outside."""
        return self._judge(task, completion, ctx, 0)

    def rejudge(self, task: Task, completion: str, ctx: "Context", run: int) -> Judgement:
        """With another hash seed."""
        return self._judge(task, completion, ctx, run)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, an early exit, the input itself, and a word that claims success."""
        spec = spec_of(task, Spec)
        return programs.cheats("" if spec.command else spec.language)

    def _judge(self, task: Task, completion: str, ctx: "Context", hash_seed: int) -> Judgement:
        spec = spec_of(task, Spec)
        if not spec.tests:
            raise RecordError("bad_spec", "stdin_stdout: no tests")
        command = _command(spec)
        code = _code(command, completion)
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
        try:
            version = ctx.sandbox.version(spec.packages, command.present() if command else ())
        except Unavailable as error:
            return infrastructure(error.reason, error.detail)
        evidence: dict[str, Any] = {
            "tests": len(spec.tests),
            "code_sha": digest(code),
            "mode": ctx.sandbox.mode,
            "sandbox": version,
        }
        if command is not None:
            evidence["program"] = " ".join(command.argv)
        slowest = 0.0
        for index, test in enumerate(spec.tests):
            ran = _run(spec, command, code, test.stdin, limits, ctx)
            if ran.kind is RunKind.INFRASTRUCTURE:
                return infrastructure(ran.reason, ran.detail)
            slowest = max(slowest, ran.duration_s)
            right = ran.kind is RunKind.OK and same_output(spec, test.expected, ran.stdout)
            if not right:
                kind = _KINDS.get(ran.kind, VerdictKind.FAIL)
                reason = "wrong_output" if ran.kind is RunKind.OK else ran.reason
                seen = {"passed": index, "test": index, "output": ran.stdout[-300:], "errors": ran.stderr[-500:]}
                return Judgement(kind, 0.0, reason, {**evidence, **seen})
        return passed({**evidence, "passed": len(spec.tests), "slowest_s": round(slowest, 3)})


def _command(spec: Spec) -> Command | None:
    """The task's command line; None for a Python program. RecordError `bad_spec` for one that could never run."""
    if spec.command is None and spec.language == "python":
        return None
    try:
        command = spec.command or language(spec.language)
        command.check()
    except UserError as error:
        raise RecordError("bad_spec", f"stdin_stdout: {error}") from error
    return command


def _code(command: Command | None, completion: str) -> str | None:
    return python_code(completion) if command is None else programs.source(completion, command.tags)


def _run(spec: Spec, command: Command | None, code: str, stdin: str, limits: Limits, ctx: "Context") -> RunResult:
    loopback = spec.network == "loopback"
    if command is None:
        return ctx.sandbox.run_python(code, stdin=stdin, limits=limits, packages=spec.packages, loopback=loopback)
    return ctx.sandbox.run_program(code, command, stdin=stdin, limits=limits, packages=spec.packages, loopback=loopback)


def same_output(spec: Spec, expected: str, printed: str) -> bool:
    """Whether the output is the expected one, as `compare` says; numbers may differ by the tolerance."""
    if spec.compare == "exact":
        return printed == expected
    if spec.compare == "lines":
        return _lines(printed) == _lines(expected)
    left, right = expected.split(), printed.split()
    return len(left) == len(right) and all(
        want == got or (spec.tolerance is not None and same_number(want, got, spec.tolerance))
        for want, got in zip(left, right, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]
