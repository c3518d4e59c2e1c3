"""Changes every text of a trajectory, wherever it stands, and leaves its form as it is."""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from schemas.ids import canonical_json
from schemas.trajectory import Part, Step, ToolCall, Trajectory

Change = Callable[[str], str]


def changed(trajectory: Trajectory, change: Change) -> Trajectory:
    """The trajectory with `change` applied to what was said, thought, called, answered, and kept beside the steps.

    Arguments that were parsed are changed value by value and stay JSON; a number that changes becomes text. What a
    source kept beside the steps (extra, outcome) is changed in its texts only. Media, names and provenance stay.
    """
    replace = msgspec.structs.replace
    return replace(
        trajectory,
        steps=tuple(_step(step, change) for step in trajectory.steps),
        extra_json=_json(trajectory.extra_json, change),
        outcome=replace(trajectory.outcome, raw_json=_json(trajectory.outcome.raw_json, change)),
    )


def _step(step: Step, change: Change) -> Step:
    replace = msgspec.structs.replace
    return replace(
        step,
        content=_parts(step.content, change),
        reasoning=step.reasoning and change(step.reasoning),
        tool_calls=tuple(_call(call, change) for call in step.tool_calls),
        results=tuple(replace(result, content=_parts(result.content, change)) for result in step.results),
        extra_json=_json(step.extra_json, change),
    )


def _parts(parts: tuple[Part, ...], change: Change) -> tuple[Part, ...]:
    return tuple(msgspec.structs.replace(part, text=change(part.text)) if part.text else part for part in parts)


def _call(call: ToolCall, change: Change) -> ToolCall:
    if call.arguments_json is None:
        return msgspec.structs.replace(call, arguments=change(call.arguments))
    text = _json(call.arguments_json, change, numbers=True)
    same = text == call.arguments_json
    return call if same or text is None else msgspec.structs.replace(call, arguments=text, arguments_json=text)


def _json(text: str | None, change: Change, *, numbers: bool = False) -> str | None:
    """JSON text with its texts changed; the very text where nothing changes."""
    if text is None:
        return None
    value = json.loads(text)
    made = _value(value, change, numbers)
    return text if made == value else canonical_json(made)


def _value(value: Any, change: Change, numbers: bool) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _value(child, change, numbers) for key, child in value.items()}
    if isinstance(value, list):
        return [_value(child, change, numbers) for child in value]
    if numbers and isinstance(value, int) and not isinstance(value, bool):
        made = change(str(value))
        return value if made == str(value) else made
    return value
