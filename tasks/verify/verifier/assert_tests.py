"""Judges a function by test code that calls it, such as a `check(candidate)` full of assertions, out of its reach.

A task's specification (JSON):

    {"entry": "add", "test": "def check(candidate):\\n    assert candidate(1, 2) == 3", "check": "check", "prefix": "…"}

The tests run in one jail and the candidate in another. Between them go only plain data, through the trusted process:
which calls the tests make, and what value each call gave. So no candidate can patch the tests, see what they expect, or
end them early; and no test is unpickled, imported or run here (trust: outside).
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import RecordError, Unavailable
from schemas.ids import canonical_json, digest
from schemas.task import Task
from schemas.trajectory import Base, Trajectory
from schemas.vocabulary import VerdictKind
from tasks.sandbox.results import Call, CallResult, Limits, RunKind
from tasks.verify.answers.extract import defines, python_code
from tasks.verify.base import Judgement, agent_messages, failed, last_message, passed, spec_of, unparsable
from tasks.verify.execution import ExecutionVerifier
from tasks.verify.ranges import Seconds

if TYPE_CHECKING:
    from tasks.context import Context

_KINDS = {
    RunKind.TIMEOUT: VerdictKind.TIMEOUT,
    RunKind.CPU: VerdictKind.TIMEOUT,
    RunKind.MEMORY: VerdictKind.MEMORY,
    RunKind.REFUSED: VerdictKind.REFUSED,
}
_MOST_CALLS, _MOST_ROUNDS = 2_000, 20


class Spec(Base, frozen=True):
    """The function's name, the test code and its entry, and code that stands before a bare completion."""

    entry: str
    test: str
    check: str = "check"
    prefix: str = ""
    timeout_s: Seconds | None = None
    packages: list[str] = []


class AssertTests(ExecutionVerifier, frozen=True, kw_only=True):
    """Runs the task's own test code against the candidate, each in its own jail.

    timeout_s, cpu_s, memory_mb: limits of one call of the candidate, and of the tests as a whole.
    """

    timeout_s: float = 10.0
    cpu_s: float = 5.0
    memory_mb: int = 512

    def subject(self, task: Task, completion: str) -> str | None:
        """The code, without the prefix that the task gives."""
        return python_code(completion, spec_of(task, Spec).entry)

    def environment(self, task: Task, ctx: "Context") -> str:
        """Interpreter, packages, backend and mode of the sandbox."""
        return f"{ctx.sandbox.mode}/{ctx.sandbox.version(spec_of(task, Spec).packages)}"

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Rounds of calls until the tests have passed or failed; nearly always one."""
        spec = spec_of(task, Spec)
        code = python_code(completion, spec.entry)
        if code is None:
            return unparsable("no_code")
        if not defines(code, spec.entry):
            code = spec.prefix + code
        limits = Limits(
            wall_s=spec.timeout_s or self.timeout_s, cpu_s=self.cpu_s, memory_mb=self.memory_mb, value_kb=4096
        )
        evidence: dict[str, Any] = {"code_sha": digest(code), "sandbox": ctx.sandbox.version(spec.packages)}
        wanted = _calls_of(spec, ctx, limits)
        known: dict[str, list[Any]] = {}
        worst: CallResult | None = None
        for _ in range(_MOST_ROUNDS):
            fresh = list({key: each for each in wanted if (key := canonical_json(each)) not in known}.values())
            if len(known) + len(fresh) > _MOST_CALLS:
                raise RecordError("bad_spec", f"assert_tests: the tests make more than {_MOST_CALLS} different calls")
            for payload, result in zip(fresh, _candidate(spec, code, fresh, ctx, limits), strict=True):
                if result.kind is RunKind.INFRASTRUCTURE:
                    raise Unavailable(result.reason, result.detail)
                good = result.kind is RunKind.OK
                outcome = ["ok", result.value] if good else ["error", result.detail]
                known[canonical_json(payload)] = [payload, *outcome]
                if not good and (worst is None or result.kind in _KINDS):
                    worst = result if worst is None or worst.kind not in _KINDS else worst
            asking = Call(entry="_gm_test", args=[spec.check, spec.entry, list(known.values())])
            found = _tests(spec, asking, ctx, limits)
            evidence["calls"] = len(known)
            if found.kind is not RunKind.OK:
                # Values that the tests choke on are wrong values.
                return Judgement(_KINDS.get(found.kind, VerdictKind.FAIL), 0.0, f"tests_{found.reason}", evidence)
            if found.value["status"] == "passed":
                # Tests that expect an exception are content with a call that ran out of time, this time.
                return passed(evidence)._replace(lasting=worst is None or worst.kind not in _KINDS)
            if found.value["status"] == "failed":
                evidence["detail"] = worst.detail if worst else found.value["detail"]
                kind = _KINDS.get(worst.kind, VerdictKind.FAIL) if worst else VerdictKind.FAIL
                return Judgement(kind, 0.0, worst.reason if worst else "wrong_value", evidence)
            wanted = found.value["calls"]
        return failed("too_many_rounds", evidence)

    def answer(self, task: Task, trajectory: Trajectory) -> str:
        """The last agent message whose code defines the function, else the last one."""
        entry = spec_of(task, Spec).entry
        for text in agent_messages(trajectory):
            code = python_code(text, entry)
            if code is not None and defines(code, entry):
                return text
        return last_message(trajectory)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, an early exit, an object equal to everything, a stub, and one that patches what tests use."""
        entry = spec_of(task, Spec).entry
        always = "class A(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\n"
        always += f"def {entry}(*a, **k): return A()"
        return {
            "empty": "",
            "exit": "```python\nimport os\nos._exit(0)\n```",
            "always_equal": f"```python\n{always}\n```",
            "stub": f"```python\ndef {entry}(*a, **k): return None\n```",
            "patch": f"```python\nimport builtins\nbuiltins.AssertionError = RuntimeError\ndef check(c): pass\n"
            f"def {entry}(*a, **k): pass\n```",
        }


@lru_cache(maxsize=1)
def _plain() -> str:
    return Path(__file__).parents[1].joinpath("answers", "plain.py").read_text(encoding="utf-8")


def _tests(spec: Spec, call: Call, ctx: "Context", limits: Limits) -> CallResult:
    """One call in the tests' jail. A prefix that ends inside a function gets an empty body."""
    body = "    pass\n" if _open_ended(spec.prefix) else ""
    # What stands in for the candidate is defined last: names of the tests' own must not take its place.
    code = f"{spec.prefix}\n{body}{spec.test}\n{_plain()}"
    result = ctx.sandbox.call_functions(code, [call], limits, packages=spec.packages).results[0]
    if result.kind is RunKind.INFRASTRUCTURE:
        raise Unavailable(result.reason, result.detail)
    return result


def _open_ended(prefix: str) -> bool:
    """Whether the prefix ends inside a function (a header and a docstring), which a completion would fill."""
    lines = [line for line in prefix.splitlines() if line.strip()]
    return bool(lines) and lines[-1][:1] in (" ", "\t")


def _candidate(spec: Spec, code: str, payloads: list[Any], ctx: "Context", limits: Limits) -> tuple[CallResult, ...]:
    calls = [Call(entry="_gm_call", args=[payload, spec.entry]) for payload in payloads]
    return ctx.sandbox.call_functions(f"{code}\n\n{_plain()}", calls, limits, packages=spec.packages).results


_walked: dict[str, list[Any]] = {}


def _calls_of(spec: Spec, ctx: "Context", limits: Limits) -> list[Any]:
    """The calls that one walk through the tests makes; remembered, since they depend on nothing else."""
    key = digest(canonical_json(spec))
    if key not in _walked:
        found = _tests(spec, Call(entry="_gm_walk", args=[spec.test, spec.check, spec.entry]), ctx, limits)
        if found.kind is not RunKind.OK:
            raise RecordError("bad_spec", f"assert_tests: the tests do not run: {found.detail}")
        if len(_walked) > 4096:
            _walked.clear()
        _walked[key] = found.value
    return _walked[key]
