"""Drops trajectories that break one of a list of named rules about tool calls."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from schemas.rows import Verdict
from schemas.trajectory import Step, ToolCall, Trajectory, text_of
from tasks.curate.base import KEEP, Choice, Selector
from tasks.curate.view import own_steps
from tasks.operator import Item

if TYPE_CHECKING:
    from tasks.context import Context

Rule = Literal["tool_error", "empty_result", "repeated_call", "unknown_tool", "missing_argument", "unknown_argument"]


class StrictClean(Selector, frozen=True, kw_only=True):
    """Drops trajectories that break one of a list of named rules about tool calls.

    The reason is the rule's name; the evidence the step and the call that break it.

    rules, in the order in which they are tried: tool_error: a result says that the call failed. empty_result: a
    call's result is blank. repeated_call: a call follows an equal one. unknown_tool: a tool that the step was not
    offered. missing_argument, unknown_argument: arguments against the schema that the step was offered. Where no
    tools were offered, the last three have nothing to say.
    """

    rules: tuple[Rule, ...] = ("tool_error", "repeated_call", "unknown_tool", "missing_argument")

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """The first rule that is broken."""
        steps = list(enumerate(own_steps(trajectory)))
        for rule in self.rules:
            for number, step in steps:
                for call in step.tool_calls:
                    if _BROKEN[rule](trajectory, steps, number, call):
                        evidence = {"step": number, "call": call.id, "tool": call.name}
                        return Choice(False, rule, evidence=evidence)
        return KEEP


Check = Callable[[Trajectory, Sequence[tuple[int, Step]], int, ToolCall], bool]


def _tool_error(_: Trajectory, steps: Sequence[tuple[int, Step]], number: int, call: ToolCall) -> bool:
    return any(result.is_error for result in steps[number][1].results if result.call_id == call.id)


def _empty_result(_: Trajectory, steps: Sequence[tuple[int, Step]], number: int, call: ToolCall) -> bool:
    found = [result for result in steps[number][1].results if result.call_id == call.id]
    return any(not text_of(result.content).strip() and not result.content[1:] for result in found)


def _repeated_call(_: Trajectory, steps: Sequence[tuple[int, Step]], number: int, call: ToolCall) -> bool:
    calls = [one for at, step in steps if at <= number for one in step.tool_calls]
    place = next(at for at, one in enumerate(calls) if one.id == call.id)
    return place > 0 and _same(calls[place - 1], call)


def _unknown_tool(trajectory: Trajectory, steps: Sequence[tuple[int, Step]], number: int, call: ToolCall) -> bool:
    offered = _offered(trajectory, steps[number][1])
    return bool(offered) and call.name not in offered


def _missing_argument(trajectory: Trajectory, steps: Sequence[tuple[int, Step]], number: int, call: ToolCall) -> bool:
    schema = _offered(trajectory, steps[number][1]).get(call.name, {})
    return not set(schema.get("required") or ()) <= set(_arguments(call))


def _unknown_argument(trajectory: Trajectory, steps: Sequence[tuple[int, Step]], number: int, call: ToolCall) -> bool:
    schema = _offered(trajectory, steps[number][1]).get(call.name, {})
    known = schema.get("properties")
    return isinstance(known, dict) and not set(_arguments(call)) <= set(known)


_BROKEN: dict[Rule, Check] = {
    "tool_error": _tool_error,
    "empty_result": _empty_result,
    "repeated_call": _repeated_call,
    "unknown_tool": _unknown_tool,
    "missing_argument": _missing_argument,
    "unknown_argument": _unknown_argument,
}


def _same(one: ToolCall, other: ToolCall) -> bool:
    return (one.name, one.arguments_json or one.arguments) == (other.name, other.arguments_json or other.arguments)


def _offered(trajectory: Trajectory, step: Step) -> dict[str, dict[str, Any]]:
    """The parameter schemas of the tools offered at a step, by name; both the bare and the OpenAI form are read."""
    if step.tools is None or step.tools >= len(trajectory.tool_sets):
        return {}
    tools = msgspec.json.decode(trajectory.tool_sets[step.tools])
    found = {}
    for tool in tools if isinstance(tools, list) else []:
        inner = tool.get("function", tool) if isinstance(tool, dict) else {}
        if isinstance(inner, dict) and "name" in inner:
            schema = inner.get("parameters") or inner.get("input_schema") or {}
            found[str(inner["name"])] = schema if isinstance(schema, dict) else {}
    return found


def _arguments(call: ToolCall) -> dict[str, Any]:
    value = msgspec.json.decode(call.arguments_json) if call.arguments_json else {}
    return value if isinstance(value, dict) else {}
