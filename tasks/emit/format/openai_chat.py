"""A trajectory as OpenAI chat messages: `{"messages", "tools", id, model, outcome…}`.

An agent step becomes one assistant message and one tool message per result. The environment's own words become
a user message named "environment", which importers read back as such.
"""

from typing import Any, Literal

from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory
from schemas.vocabulary import Source
from tasks.emit.format.pieces import argument_object, argument_text, content_of, extra_of, tools_of, top_fields
from tasks.normalize.usage import usage_fields

Arguments = Literal["text", "object"]
_ROLE = {Source.SYSTEM: "system", Source.USER: "user", Source.AGENT: "assistant", Source.ENVIRONMENT: "user"}


def write(trajectory: Trajectory, arguments: Arguments = "text") -> dict[str, Any]:
    """The record. `arguments`: JSON text as OpenAI has them, or objects (never-parsed ones stay text)."""
    messages: list[dict[str, Any]] = []
    for step in trajectory.steps:
        messages.extend(_messages(step, arguments))
    record: dict[str, Any] = {"messages": messages}
    tools = tools_of(trajectory)
    if tools:
        record["tools"] = tools
    record.update(top_fields(trajectory, extra_of(trajectory), {"messages", "tools"}))
    return record


def _messages(step: Step, arguments: Arguments) -> list[dict[str, Any]]:
    if step.source is Source.ENVIRONMENT and step.results and not step.content:
        return [_tool(result, step.tool_calls) for result in step.results]
    extra = extra_of(step)
    message: dict[str, Any] = {"role": extra.pop("role", _ROLE[step.source]), "content": content_of(step.content)}
    if step.source is Source.ENVIRONMENT:
        message["name"] = "environment"
    elif step.name is not None:
        message["name"] = step.name
    if step.reasoning is not None:
        message["reasoning_content"] = step.reasoning
    if step.tool_calls:
        message["tool_calls"] = [_call(call, arguments) for call in step.tool_calls]
    for key, value in (
        ("timestamp", step.timestamp),
        ("model", step.model),
        ("finish_reason", step.finish_reason),
        ("weight", step.weight),
        ("reward", step.reward),
        ("usage", usage_fields(step.usage) if step.usage else None),
        ("copied_context", step.copied_context or None),
    ):
        if value is not None:
            message[key] = value
    message.update({key: value for key, value in extra.items() if key not in message})
    return [message, *(_tool(result, step.tool_calls) for result in step.results)]


def _call(call: ToolCall, arguments: Arguments) -> dict[str, Any]:
    value: Any = argument_object(call) if arguments == "object" else None
    return {
        "id": call.source_id or call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": argument_text(call) if value is None else value},
    }


def _tool(result: ToolResult, calls: tuple[ToolCall, ...]) -> dict[str, Any]:
    own = next((call for call in calls if call.id == result.call_id), None)
    message: dict[str, Any] = {"role": "tool", "content": content_of(result.content) or ""}
    key = result.source_call_id or (own and (own.source_id or own.id))
    if key:
        message["tool_call_id"] = key
    if result.name is not None:
        message["name"] = result.name
    if result.is_error is not None:
        message["is_error"] = result.is_error
    return message
