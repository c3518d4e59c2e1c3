"""OpenAI's calls: `tool_calls` of a message, and the older single `function_call`."""

from typing import Any

from schemas.errors import RecordError
from tasks.normalize.decoder.found import Found, from_text, from_value


def calls_of(message: dict[str, Any]) -> tuple[Found, ...]:
    """The calls of an assistant message, in order; () when it has none. Arguments may be text or JSON data."""
    given = message.get("tool_calls")
    if given:
        if not isinstance(given, list):
            raise RecordError("wrong_type", "tool_calls is not a list")
        return tuple(_call(item) for item in given)
    old = message.get("function_call")
    if old:
        return (_function(old, None),)
    return ()


def _call(item: Any) -> Found:
    if not isinstance(item, dict):
        raise RecordError("wrong_type", "a tool call is not an object")
    key = item.get("id")
    source_id = key if isinstance(key, str) else None
    custom = item.get("custom")
    if isinstance(custom, dict):
        return from_text(_name(custom), str(custom.get("input") or ""), source_id)
    # Some logs put name and arguments right into the call.
    return _function(item.get("function") if isinstance(item.get("function"), dict) else item, source_id)


def _function(function: Any, source_id: str | None) -> Found:
    if not isinstance(function, dict):
        raise RecordError("wrong_type", "a function call is not an object")
    return from_value(_name(function), function.get("arguments"), source_id)


def _name(function: dict[str, Any]) -> str:
    name = function.get("name")
    if not isinstance(name, str):
        raise RecordError("call_without_name", "a tool call names no function")
    return name
