"""What a decoder of tool calls gives, and how argument text relates to JSON.

The carriers are msgspec structs because these are built in a third of a named tuple's time, once per call.
"""

from typing import Any

import msgspec

from schemas.errors import RecordError
from schemas.vocabulary import ArgumentState
from tasks.normalize.strict import decode

_encode = msgspec.json.Encoder(order="sorted").encode
_plain = msgspec.json.Encoder().encode


class Found(msgspec.Struct, frozen=True, gc=False):
    """One decoded call: `arguments` is the raw text as given, `json` canonical JSON text of an object or None.

    `code` marks a call whose raw arguments are a program.
    """

    name: str
    arguments: str
    json: str | None
    state: ArgumentState
    source_id: str | None = None
    code: bool = False


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """An agent's text taken apart: the text before the calls, the calls in order, the text after them."""

    before: str
    calls: tuple[Found, ...]
    after: str = ""


def canonical(value: Any) -> str:
    """JSON text with sorted keys and no white space."""
    return _encode(value).decode()


def compact(value: Any) -> str:
    """JSON text without white space, keys in the order given."""
    return _plain(value).decode()


def from_text(name: str, arguments: str, source_id: str | None = None) -> Found:
    """A call whose arguments were given as JSON text; text that is no JSON object is kept as it stands.

    A cut text (the model reached its token limit) is marked truncated, any other one unparsed.
    """
    try:
        value = decode(arguments.encode("utf-8", "surrogatepass")).value
    except RecordError as error:
        cut = error.reason == "cut_line" and arguments.lstrip().startswith("{")
        state = ArgumentState.TRUNCATED if cut else ArgumentState.UNPARSED
        return Found(name, arguments, None, state, source_id)
    if not isinstance(value, dict):
        return Found(name, arguments, None, ArgumentState.UNPARSED, source_id)
    return Found(name, arguments, canonical(value), ArgumentState.PARSED, source_id)


def from_value(name: str, arguments: Any, source_id: str | None = None, raw: str | None = None) -> Found:
    """A call whose arguments were given as JSON data, or read out of the text `raw`."""
    if isinstance(arguments, str):
        return from_text(name, arguments, source_id)
    if arguments is None:
        return Found(name, "" if raw is None else raw, None, ArgumentState.UNPARSED, source_id)
    text = compact(arguments) if raw is None else raw
    if not isinstance(arguments, dict):
        return Found(name, text, None, ArgumentState.UNPARSED, source_id)
    return Found(name, text, canonical(arguments), ArgumentState.PARSED, source_id)


def code_call(language: str, code: str) -> Found:
    """Code as a call: the tool is named after the language, the raw arguments are the code itself."""
    return Found(language, code, canonical({"code": code}), ArgumentState.PARSED, code=True)
