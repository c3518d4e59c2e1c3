"""Hermes text: calls as `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, results in `<tool_response>`."""

import re
from typing import Any

from schemas.errors import RecordError
from schemas.vocabulary import ArgumentState
from tasks.normalize.decoder.found import Decoded, Found, compact, from_value
from tasks.normalize.strict import decode as decode_json

OPEN, CLOSE = "<tool_call>", "</tool_call>"
RESPONSE_OPEN, RESPONSE_CLOSE = "<tool_response>", "</tool_response>"
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')


def decode(text: str) -> Decoded | None:
    """The calls in `text`, or None when there are none. Text between two calls is kept with the text after them."""
    at = text.find(OPEN)
    if at < 0:
        return None
    calls: list[Found] = []
    after: list[str] = []
    before = text[:at]
    while at >= 0:
        start = at + len(OPEN)
        end = text.find(CLOSE, start)
        call = _call(text[start:] if end < 0 else text[start:end], cut=end < 0)
        if call is None:
            return None
        calls.append(call)
        if end < 0:
            break
        end += len(CLOSE)
        at = text.find(OPEN, end)
        after.append(text[end:] if at < 0 else text[end:at])
    return Decoded(before, tuple(calls), "".join(after))


def _call(body: str, cut: bool) -> Found | None:
    try:
        value = decode_json(body.encode("utf-8", "surrogatepass")).value
    except RecordError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("name"), str) and set(value) <= {"name", "arguments", "id"}:
        key = value.get("id")
        return from_value(value["name"], value.get("arguments"), key if isinstance(key, str) else None)
    named = _NAME.search(body)
    if named is None:
        return None
    return Found(named.group(1), body, None, ArgumentState.TRUNCATED if cut else ArgumentState.UNPARSED)


def encode(name: str, arguments: Any) -> str:
    """The text of one call with parsed arguments (an object); markup inside of them is escaped as JSON allows."""
    body = compact({"name": name, "arguments": arguments})
    if OPEN in body or CLOSE in body:
        body = body.replace("<", "\\u003c")
    return f"{OPEN}\n{body}\n{CLOSE}"


def responses(text: str) -> list[str] | None:
    """The bodies of the `<tool_response>` blocks that make up `text`, or None when it holds anything else."""
    bodies: list[str] = []
    whole = text.strip()
    at = 0
    while at < len(whole):
        end = whole.find(RESPONSE_CLOSE, at + len(RESPONSE_OPEN))
        if end < 0 or not whole.startswith(RESPONSE_OPEN, at):
            return None
        bodies.append(whole[at + len(RESPONSE_OPEN) : end].removeprefix("\n").removesuffix("\n"))
        at = end + len(RESPONSE_CLOSE)
        while at < len(whole) and whole[at].isspace():
            at += 1
    return bodies or None
