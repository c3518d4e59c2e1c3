"""Runs an answer's function calls on a declared state and compares the state that they leave (in the jail, outside).

A task's specification (JSON):

    {"source": "def book(state, room, guest):\\n    state['rooms'][room] = guest\\n    return 'ok'",
     "functions": ["book"], "state": {"rooms": {"12": null}},
     "final": {"rooms": {"12": "Ada"}}, "gold_calls": [{"name": "book", "arguments": {"room": "12", "guest": "Ada"}}]}

The functions take the state first and change it. `final` is the state that must come out, or `gold_calls` are calls
that lead there; how the answer gets there is its own matter. The candidate gives names and JSON arguments only and
never code; the functions run in a fresh jail all the same, and the state is read back as JSON (trust: outside).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.errors import RecordError
from schemas.task import Task
from schemas.trajectory import Base, Trajectory
from schemas.vocabulary import VerdictKind
from tasks.sandbox.results import Call, CallResult, Limits, RunKind
from tasks.verify.answers.calling import calls_made, read_calls
from tasks.verify.answers.compare import equal
from tasks.verify.base import Judgement, failed, infrastructure, passed, spec_of, unparsable
from tasks.verify.execution import ExecutionVerifier
from tasks.verify.ranges import Tolerance

if TYPE_CHECKING:
    from tasks.context import Context

_KINDS = {RunKind.TIMEOUT: VerdictKind.TIMEOUT, RunKind.CPU: VerdictKind.TIMEOUT, RunKind.MEMORY: VerdictKind.MEMORY}
_DRIVER = """

def _gm_play(state, calls):
    results = []
    for call in calls:
        try:
            value = globals()[call["name"]](state, *call.get("positional", []), **call["arguments"])
            results.append({"value": repr(value)[:200]})
        except Exception as error:
            results.append({"error": f"{type(error).__name__}: {error}"[:200]})
    return {"state": state, "results": results}
"""


class Spec(Base, frozen=True):
    """The functions' source and names, the state before, and the state after, given or reached by calls.

    ignored: top-level keys of the state that are not compared (a log, a clock). errors: whether a call that raised is
    forgiven when the state comes out right.
    """

    source: str
    functions: list[str]
    state: dict[str, Any]
    final: dict[str, Any] | None = None
    gold_calls: list[dict[str, Any]] | None = None
    ignored: list[str] = []
    errors: bool = True
    tolerance: Tolerance | None = None
    packages: list[str] = []


class FunctionState(ExecutionVerifier, frozen=True, kw_only=True):
    """The final state must be the right one, by whatever calls.

    timeout_s, cpu_s, memory_mb: of all calls together. most_calls: an answer with more is wrong.
    """

    timeout_s: float = 10.0
    cpu_s: float = 5.0
    memory_mb: int = 512
    most_calls: int = 200

    def subject(self, task: Task, completion: str) -> str | None:
        """The text with the calls."""
        return completion if completion.strip() else None

    def environment(self, task: Task, ctx: "Context") -> str:
        """Interpreter, packages, backend and mode of the sandbox."""
        return f"{ctx.sandbox.mode}/{ctx.sandbox.version(spec_of(task, Spec).packages)}"

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Reads the calls, runs them and the gold ones on the state, compares outside."""
        spec = _spec(task)
        calls = read_calls(completion, self.timeout_s)
        if isinstance(calls, Judgement):
            return calls
        idle = spec.final == spec.state if spec.gold_calls is None else not spec.gold_calls
        if not calls and not (idle and completion.strip()):
            return unparsable("no_call")
        calls = calls or []
        evidence: dict[str, Any] = {"calls": len(calls), "sandbox": ctx.sandbox.version(spec.packages)}
        unknown = next((call["name"] for call in calls if call["name"] not in spec.functions), None)
        if unknown is not None:
            return failed("unknown_function", {**evidence, "name": str(unknown)[:100]})
        if len(calls) > self.most_calls:
            return failed("too_many_calls", evidence)
        played, gold = self._play(spec, [calls, spec.gold_calls or []], ctx)
        if played.kind is RunKind.INFRASTRUCTURE:
            return infrastructure(played.reason, played.detail)
        if played.kind is not RunKind.OK:
            kind = _KINDS.get(played.kind, VerdictKind.FAIL)
            return Judgement(kind, 0.0, played.reason, {**evidence, "detail": played.detail[:300]})
        errors = [(i, each["error"]) for i, each in enumerate(played.value["results"]) if "error" in each]
        evidence["errors"] = [{"call": index, "error": error} for index, error in errors[:5]]
        wrong = _differing(_wanted(spec, gold), played.value["state"], spec)
        if wrong:
            return failed("wrong_state", {**evidence, "differs": wrong[:10]})
        return failed("call_raised", evidence) if errors and not spec.errors else passed(evidence)

    def answer(self, task: Task, trajectory: Trajectory) -> str:
        """The tool calls that the agent made, in order; without any, what it said last."""
        return calls_made(trajectory)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, a call of nothing, and each function without arguments."""
        bare = {f"bare_{name}": f"{name}()" for name in _spec(task).functions[:5]}
        return {"empty": "", "unknown": "f()", **bare}

    def _play(self, spec: Spec, plays: list[list[dict[str, Any]]], ctx: "Context") -> tuple[CallResult, ...]:
        """Each list of calls on a state of its own: every call of the sandbox runs in a fork of the loaded code."""
        limits = Limits(wall_s=self.timeout_s, cpu_s=self.cpu_s, memory_mb=self.memory_mb)
        asking = [Call(entry="_gm_play", args=[spec.state, calls]) for calls in plays]
        return ctx.sandbox.call_functions(
            spec.source + _DRIVER, asking, limits, stop_on_timeout=False, packages=spec.packages
        ).results


def _spec(task: Task) -> Spec:
    spec = spec_of(task, Spec)
    if not spec.functions or (spec.final is None) is (spec.gold_calls is None):
        raise RecordError("bad_spec", "function_state: functions, and one of final and gold_calls, are needed")
    return spec


def _wanted(spec: Spec, gold: CallResult) -> dict[str, Any]:
    """The state that must come out."""
    if spec.final is not None:
        return spec.final
    errors = [each["error"] for each in gold.value["results"] if "error" in each] if gold.kind is RunKind.OK else []
    if gold.kind is not RunKind.OK or errors:
        raise RecordError("bad_spec", f"function_state: the gold calls fail: {gold.detail or errors[0]}")
    return msgspec.convert(gold.value["state"], dict[str, Any])


def _differing(wanted: dict[str, Any], got: Any, spec: Spec) -> list[str]:
    """The top-level keys that differ."""
    if not isinstance(got, dict):
        return ["the whole state"]
    keys = sorted((set(wanted) | set(got)) - set(spec.ignored))
    return [
        key for key in keys if key not in wanted or key not in got or not equal(wanted[key], got[key], spec.tolerance)
    ]
