"""A trajectory as chat messages, the form that chat templates and most trainers take.

Tool arguments become objects here and only here; on the disk they are JSON text. What cannot be said in this
form (media, arguments that never parsed) is refused with a reason instead of being bent into shape.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.errors import RecordError
from schemas.rows import StepLabel
from schemas.trajectory import Step, Trajectory, text_of
from schemas.vocabulary import ArgumentState, PartType, Source
from tasks.emit.format.pieces import tools_of

Message = dict[str, Any]

# What the JSON reader of `datasets` takes; beyond it a whole shard would fail to load.
_INT_MIN, _INT_MAX, _DEPTH = -(2**63), 2**64 - 1, 500


class Chat(NamedTuple):
    """Messages, the tools offered (schemas as objects) and, for each message, the step it came from."""

    messages: list[Message]
    tools: list[Any] | None
    steps: list[int]


def to_chat(trajectory: Trajectory) -> Chat:
    """The trajectory as messages with arguments as objects; RecordError when that form cannot hold it."""
    messages: list[Message] = []
    steps: list[int] = []
    for index, step in enumerate(trajectory.steps):
        made = _messages_of(step)
        messages.extend(made)
        steps.extend([index] * len(made))
    if not messages:
        raise RecordError("empty", "no step gives a message")
    # A chat row has one inventory for all its turns: every tool that was offered at some step.
    tools = tools_of(trajectory)
    check_json(tools)
    return Chat(messages, tools or None, steps)


def step_weights(trajectory: Trajectory, labels: Sequence[StepLabel]) -> dict[int, float]:
    """The loss weight of every agent step: the lowest of the source's own and the labels'; 1 when nobody says.

    Copied context was sampled elsewhere and weighs 0. Labels of single calls are `call_weights`.
    """
    weights: dict[int, float] = {}
    for index, step in enumerate(trajectory.steps):
        if step.source is Source.AGENT:
            weights[index] = 0.0 if step.copied_context else 1.0 if step.weight is None else step.weight
    for label in labels:
        if label.weight is not None and label.call_id is None and label.step in weights:
            weights[label.step] = min(weights[label.step], label.weight)
    calls = call_weights(trajectory, labels)
    for index, step in enumerate(trajectory.steps):
        own = [calls.get(call.id) for call in step.tool_calls]
        if own and index in weights and all(weight is not None for weight in own):
            # Every call of the step is weighed down: then so is the reasoning that led to them.
            weights[index] = min(weights[index], max(weight for weight in own if weight is not None))
    return weights


def call_weights(trajectory: Trajectory, labels: Sequence[StepLabel]) -> dict[str, float]:
    """Loss weights that labels give to single calls, by our call id; the lowest wins."""
    known = {call.id for step in trajectory.steps for call in step.tool_calls}
    found: dict[str, float] = {}
    for label in labels:
        if label.weight is not None and label.call_id in known and label.call_id is not None:
            found[label.call_id] = min(found.get(label.call_id, label.weight), label.weight)
    return found


def json_text(value: Any) -> str:
    """A message or tool list as compact JSON text in its own key order, the form of a JSON column."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def check_json(value: Any, depth: int = 0) -> None:
    """RecordError `json_range` for what the JSON reader of `datasets` cannot load: integers beyond 64 bits, depth."""
    if depth > _DEPTH:
        raise RecordError("json_range", f"nested deeper than {_DEPTH}")
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise RecordError("json_range", "an integer beyond 64 bits")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for child in value:
            check_json(child, depth + 1)


def _messages_of(step: Step) -> list[Message]:
    if any(part.type is not PartType.TEXT for part in (*step.content, *(p for r in step.results for p in r.content))):
        raise RecordError("media", "the format holds text only")
    text = text_of(step.content)
    made: list[Message] = []
    if step.source is Source.AGENT:
        message: Message = {"role": "assistant", "content": text}
        if step.reasoning:
            message["reasoning_content"] = step.reasoning
        if step.tool_calls:
            message["tool_calls"] = [
                _call(call.id, call.name, call.arguments_json, call.state) for call in step.tool_calls
            ]
        made.append(message)
    elif text or not step.results:
        # Chat formats know no environment: what it says without being called reaches the model as a user turn.
        made.append({"role": "system" if step.source is Source.SYSTEM else "user", "content": text})
    names = {call.id: call.name for call in step.tool_calls}
    for result in step.results:
        reply: Message = {"role": "tool", "content": text_of(result.content)}
        name = result.name or names.get(result.call_id or "")
        if result.call_id:
            reply = {"role": "tool", "tool_call_id": result.call_id, "content": reply["content"]}
        made.append({**reply, "name": name} if name else reply)
    return made


def _call(call_id: str, name: str, arguments_json: str | None, state: ArgumentState) -> Message:
    if state is not ArgumentState.PARSED or arguments_json is None:
        raise RecordError(f"arguments_{state.value}", f"call {call_id} of {name}")
    arguments = json.loads(arguments_json)
    if not isinstance(arguments, dict):
        raise RecordError("arguments_no_object", f"call {call_id} of {name}")
    check_json(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
