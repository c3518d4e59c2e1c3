"""Anthropic's content blocks (text, thinking, tool_use, tool_result, media) to chat messages."""

from typing import Any

from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.known import lose_unknown

_TOOL_USE = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_BLOCK = "type thinking signature data id name input tool_use_id content is_error"
_SHOWN = frozenset({"text", "image", "document"})


def messages_of(message: dict[str, Any], draft: Draft) -> list[dict[str, Any]]:
    """The chat messages that one Anthropic message stands for: results first, as the API wants them, then the rest.

    Fields beside role and content stay with the message that holds the rest.
    """
    content = message.get("content")
    if not isinstance(content, list):
        return [message]
    lose_unknown(draft, [block for block in content if _type(block) not in _SHOWN], _BLOCK, "messages[].content[]")
    rest = {key: value for key, value in message.items() if key != "content"}
    if message.get("role") == "assistant":
        return _assistant(content, rest)
    results = [_result(block) for block in content if _type(block) == "tool_result"]
    others = [block for block in content if _type(block) != "tool_result"]
    if others or not results:
        return [*results, {**rest, "content": others}]
    kept = {key: value for key, value in rest.items() if key != "role"}
    results[-1].update(kept)
    return results


def _assistant(content: list[Any], rest: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[Any] = []
    calls: list[dict[str, Any]] = []
    thoughts: list[str] = []
    sealed: list[Any] = []
    results: list[dict[str, Any]] = []
    for block in content:
        kind = _type(block)
        if kind == "thinking" and isinstance(block.get("thinking"), str):
            thoughts.append(block["thinking"])
            if block.get("signature"):
                sealed.append({"signature": block["signature"]})
        elif kind == "redacted_thinking":
            sealed.append({key: value for key, value in block.items() if key != "type"})
        elif kind in _TOOL_USE:
            calls.append({"id": block.get("id"), "function": {"name": block.get("name"), "arguments": _input(block)}})
        elif kind is not None and kind.endswith("_tool_result"):
            results.append(_result(block))
        else:
            parts.append(block)
    made: dict[str, Any] = {**rest, "content": parts or None}
    if calls:
        made["tool_calls"] = calls
    if thoughts:
        made["reasoning_content"] = "\n\n".join(thoughts)
    if sealed:
        made["sealed_thinking"] = sealed
    return [made, *results]


def _input(block: dict[str, Any]) -> Any:
    given = block.get("input")
    return {} if given is None else given


def _result(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    plain = content is None or isinstance(content, str)
    if not plain and not (isinstance(content, list) and all(_type(item) in _SHOWN for item in content)):
        content = compact(content)
    made = {"role": "tool", "content": content, "tool_call_id": block.get("tool_use_id")}
    if isinstance(block.get("is_error"), bool):
        made["is_error"] = block["is_error"]
    return made


def _type(block: Any) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


def tools_of(tools: Any) -> Any:
    """Anthropic's tool schemas in OpenAI's shape; the provider's own tools stay as they are."""
    if not isinstance(tools, list):
        return tools
    return [_tool(tool) for tool in tools]


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict) or "input_schema" not in tool:
        return tool
    function = {key: value for key, value in tool.items() if key not in ("input_schema", "type")}
    return {"type": "function", "function": {**function, "parameters": tool["input_schema"]}}
