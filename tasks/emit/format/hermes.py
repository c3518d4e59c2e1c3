"""A trajectory as chat messages whose calls are Hermes text: `<tool_call>` in the turn, `<tool_response>` after it."""

from typing import Any

from schemas.trajectory import Trajectory
from tasks.emit.format import sharegpt

_ROLE = {"system": "system", "human": "user", "gpt": "assistant", "tool": "tool", "environment": "user"}


def write(trajectory: Trajectory) -> dict[str, Any]:
    """The record: `messages` of role and content, tools as JSON text, id and outcome."""
    record = sharegpt.write(trajectory, "hermes")
    turns = record.pop("conversations")
    system = record.pop("system", None)
    messages = [] if system is None else [{"role": "system", "content": system}]
    for turn in turns:
        rest = {key: value for key, value in turn.items() if key not in ("from", "value")}
        if turn["from"] == "environment":
            rest["name"] = "environment"
        messages.append({"role": _ROLE[turn["from"]], "content": turn["value"], **rest})
    return {"messages": messages, **record}
