"""Checks which functions an answer calls, and with which arguments, without running anything.

A task's specification (JSON):

    {"calls": [{"name": "get_weather", "arguments": {"city": ["Paris", "Paris, France"], "unit": ["celsius", null]}}],
     "ordered": false, "order_of_parameters": {"get_weather": ["city", "unit"]}}

Each argument lists the accepted values; null among them means that it may be left out. An empty list of calls means
that no function may be called.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemas.task import Task
from schemas.trajectory import Base, Trajectory
from tasks.verify.answers.calling import calls_made, read_calls
from tasks.verify.answers.compare import equal
from tasks.verify.base import Judgement, Verifier, failed, passed, spec_of, unparsable
from tasks.verify.ranges import Tolerance

if TYPE_CHECKING:
    from tasks.context import Context


class Expected(Base, frozen=True):
    """One call that must be made: its name and, per argument, the accepted values."""

    name: str
    arguments: dict[str, list[Any]] = {}


class Spec(Base, frozen=True):
    """The calls; `ordered` when their order matters; the order of parameters, for answers that give them by place."""

    calls: list[Expected]
    ordered: bool = False
    order_of_parameters: dict[str, list[str]] = {}
    tolerance: Tolerance | None = None


class FunctionCalls(Verifier, frozen=True, kw_only=True):
    """Exactly the expected calls must be made: none missing, none more, every argument with an accepted value.

    ignore_case: text arguments are compared without case, spaces and punctuation (as public leader boards do).
    timeout_s: for reading one answer.
    """

    ignore_case: bool = False
    timeout_s: float = 10.0

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Reads the calls from the text and pairs them with the expected ones."""
        spec = spec_of(task, Spec)
        found = read_calls(completion, self.timeout_s)
        if isinstance(found, Judgement):
            return found
        if not spec.calls:
            return failed("unwanted_call", {"calls": found}) if found else passed(reason="no_call")
        if not found:
            return unparsable("no_call")
        calls = [_named(call, spec) for call in found]
        if len(calls) != len(spec.calls):
            return failed("number_of_calls", {"calls": len(calls), "wanted": len(spec.calls)})
        if spec.ordered:
            faults = [self._fault(want, call, spec) for want, call in zip(spec.calls, calls, strict=True)]
            first = next((fault for fault in faults if fault), "")
        else:
            first = self._unordered(spec, calls)
        return failed(first, {"calls": calls}) if first else passed()

    def answer(self, task: Task, trajectory: Trajectory) -> str:
        """The tool calls that the agent made, in order; without any, what it said last."""
        return calls_made(trajectory)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing (unless nothing is right), a call of nothing, and every expected function without arguments."""
        spec = spec_of(task, Spec)
        cheats = {"unknown": "f()", "unknown_json": '[{"name": "f", "arguments": {}}]'}
        return {**cheats, "empty": ""} if spec.calls else cheats

    def _unordered(self, spec: Spec, calls: list[dict[str, Any]]) -> str:
        """Kuhn's matching: two expected calls may accept the same call, so the first fit may be the wrong one."""
        if sorted(call["name"] for call in calls) != sorted(want.name for want in spec.calls):
            return "wrong_function"
        fits = [[not self._fault(want, call, spec) for call in calls] for want in spec.calls]
        owner: dict[int, int] = {}

        def place(want: int, seen: set[int]) -> bool:
            for index in range(len(calls)):
                if fits[want][index] and index not in seen:
                    seen.add(index)
                    if index not in owner or place(owner[index], seen):
                        owner[index] = want
                        return True
            return False

        for want in range(len(spec.calls)):
            if not place(want, set()):
                same = next(call for call in calls if call["name"] == spec.calls[want].name)
                return self._fault(spec.calls[want], same, spec) or "no_pairing"
        return ""

    def _fault(self, want: Expected, call: dict[str, Any], spec: Spec) -> str:
        if call["name"] != want.name:
            return "wrong_function"
        if call.get("positional"):
            return "positional_arguments"
        given = call["arguments"]
        for name, accepted in want.arguments.items():
            if name not in given:
                if None not in accepted:
                    return "missing_argument"
            elif not any(self._same(value, given[name], spec) for value in accepted):
                return "wrong_argument"
        return "unknown_argument" if set(given) - set(want.arguments) else ""

    def _same(self, want: Any, got: Any, spec: Spec) -> bool:
        if self.ignore_case and isinstance(want, str) and isinstance(got, str):
            return _plain(want) == _plain(got)
        return equal(want, got, spec.tolerance)


def _plain(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())


def _named(call: dict[str, Any], spec: Spec) -> dict[str, Any]:
    """The call with arguments given by place moved to their names, where the order of parameters is known."""
    places = call.get("positional") or []
    names = spec.order_of_parameters.get(call["name"], [])
    if not places or len(places) > len(names):
        return call
    arguments = dict(zip(names, places, strict=False))
    if set(arguments) & set(call["arguments"]):
        return call
    return {"name": call["name"], "arguments": {**arguments, **call["arguments"]}}
