"""OpenAI Responses items (messages, reasoning, calls and their outputs) to chat messages."""

from typing import Any

from schemas.errors import RecordError
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.known import lose_unknown

_CALLS = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_NOTED = frozenset({"id", "type", "status", "call_id", "timestamp", "model"})
_OUTPUT = "id type status call_id output timestamp model"
_REASONING = "id type status summary[]{type text} content[]{type text} encrypted_content timestamp model"
_TURN = frozenset({"role", "content", "tool_calls", "reasoning_content", "sealed_thinking"})
_OWN_OUTPUT = ("output", "outputs", "results", "result", "error")


def messages_of(items: list[Any], draft: Draft) -> list[dict[str, Any]]:
    """The chat messages of a list of items; whatever the agent says and calls before an answer is one message."""
    found: list[dict[str, Any]] = []
    open_turn: dict[str, Any] | None = None
    for item in items:
        if not isinstance(item, dict):
            raise RecordError("wrong_type", f"an item is {type(item).__name__}, not an object")
        kind = str(item.get("type") or ("message" if "role" in item else None))
        if kind == "message" and item.get("role") != "assistant":
            open_turn = None
            found.append(_message(item))
        elif kind in _OUTPUTS:
            open_turn = None
            lose_unknown(draft, item, _OUTPUT, "items")
            found.append(_output(item))
        else:
            if open_turn is None or (kind != "message" and kind not in _CALLS and open_turn.get("tool_calls")):
                open_turn = None
            if open_turn is None or (kind == "message" and (open_turn["content"] or open_turn.get("tool_calls"))):
                open_turn = {"role": "assistant", "content": None}
                found.append(open_turn)
            if kind == "reasoning":
                lose_unknown(draft, item, _REASONING, "items.reasoning")
            outputs = _add(open_turn, item, kind)
            if outputs:
                found.extend(outputs)
                open_turn = None
    return found


def _message(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("type", "id", "status")}


def _add(turn: dict[str, Any], item: dict[str, Any], kind: Any) -> list[dict[str, Any]]:
    """Adds an item to the agent's turn; a built-in call brings its own output along."""
    if kind == "message":
        rest = _message(item)
        turn["content"] = rest.pop("content", None)
        _put(turn, {key: value for key, value in rest.items() if key != "role"})
    elif kind == "reasoning":
        texts = [_joined(item.get(name)) for name in ("content", "summary")]
        thought = next((text for text in texts if text), None)
        if thought:
            before = turn.get("reasoning_content")
            turn["reasoning_content"] = f"{before}\n\n{thought}" if before else thought
        if item.get("encrypted_content"):
            turn.setdefault("sealed_thinking", []).append({"encrypted_content": item["encrypted_content"]})
    elif kind in _CALLS:
        arguments = item.get("arguments") if kind == "function_call" else item.get("input")
        function = {"name": item.get("name"), "arguments": arguments}
        turn.setdefault("tool_calls", []).append({"id": item.get("call_id") or item.get("id"), "function": function})
        # Training logs put token ids beside the call.
        more = {key: value for key, value in item.items() if key not in _NOTED}
        _put(turn, {key: more[key] for key in more if key not in ("name", "arguments", "input")})
    else:
        return _builtin(turn, item, str(kind))
    return []


def _put(turn: dict[str, Any], fields: dict[str, Any]) -> None:
    """Adds fields of an item to the turn; one that bears the name of a part of the turn gets another."""
    for key, value in fields.items():
        turn.setdefault(f"item_{key}" if key in _TURN else key, value)


def _builtin(turn: dict[str, Any], item: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """A call of one of the provider's own tools: named after its type, everything it holds is its arguments."""
    key = item.get("call_id") or item.get("id")
    arguments = {name: value for name, value in item.items() if name not in _NOTED and name not in _OWN_OUTPUT}
    name = item.get("name") if kind == "mcp_call" and isinstance(item.get("name"), str) else kind.removesuffix("_call")
    turn.setdefault("tool_calls", []).append({"id": key, "function": {"name": name, "arguments": arguments}})
    given = [(field, item[field]) for field in _OWN_OUTPUT if item.get(field) is not None]
    if not given:
        return []
    value = given[0][1] if len(given) == 1 else dict(given)
    content = value if isinstance(value, str) else compact(value)
    return [{"role": "tool", "tool_call_id": key, "content": content}]


def _output(item: dict[str, Any]) -> dict[str, Any]:
    output = item.get("output")
    plain = isinstance(output, str) or (
        isinstance(output, list) and all(isinstance(part, dict) and "type" in part for part in output)
    )
    return {"role": "tool", "tool_call_id": item.get("call_id"), "content": output if plain else compact(output)}


def _joined(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    if not isinstance(parts, list):
        return ""
    return "\n\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def tools_of(tools: Any) -> Any:
    """The flat tool schemas of the Responses API in the nested shape of chat; built-in tools stay as they are."""
    if not isinstance(tools, list):
        return tools
    return [_tool(tool) for tool in tools]


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict) or tool.get("type") != "function" or "function" in tool:
        return tool
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
