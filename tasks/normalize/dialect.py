"""How a list of turns is written: which field is what, and how calls and observations hide in text."""

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from schemas.errors import UserError
from schemas.trajectory import Base
from tasks.normalize.decoder import code_text, function_xml, hermes, react
from tasks.normalize.decoder.found import Decoded

Decoder = Callable[[str], Decoded | None]


class Dialect(Base, frozen=True):
    """A way of writing turns.

    calls: encodings of calls in agent text, tried in order: hermes, function_xml, react[:KEYWORD],
    execute[:TAG], fenced[:LANGUAGE], code[:LANGUAGE]. observation: patterns (regular expressions, matched at the
    start) of user turns that are the environment's; the match is cut off, a group `name` is the tool's name, a group
    `content` the text itself; the empty pattern stands for every user turn right after a call. only_observed: text
    holds a call only where such a turn follows. roles: further role names → source. role_key, content_key: the
    turn's fields; more_content: fields to look into where content_key holds nothing. weight_key: the field with the
    loss weight. think: whether `<think>…</think>` at the start is the reasoning.
    """

    calls: tuple[str, ...] = ()
    observation: tuple[str, ...] = ()
    only_observed: bool = False
    roles: dict[str, str] = {}
    role_key: str = "role"
    content_key: str = "content"
    more_content: tuple[str, ...] = ()
    weight_key: str = "weight"
    think: bool = False


_FAMILIES: dict[str, tuple[str, Callable[[str], Decoder]]] = {
    "hermes": ("", lambda _: hermes.decode),
    "function_xml": ("", lambda _: function_xml.decode),
    "react": ("Action", lambda word: lambda text: react.decode(text, word)),
    "execute": ("execute", lambda tag: lambda text: code_text.decode_tag(text, tag)),
    "fenced": ("bash", lambda language: lambda text: code_text.decode_fenced(text, language)),
    "code": ("python", lambda language: lambda text: code_text.decode_whole(text, language)),
}


def decoder_of(name: str) -> Decoder:
    """The decoder that "FAMILY" or "FAMILY:ARGUMENT" names; UserError for an unknown one."""
    family, _, argument = name.partition(":")
    if family not in _FAMILIES:
        raise UserError(f"Unknown encoding of calls '{name}'.", f"Known: {', '.join(_FAMILIES)}.")
    default, make = _FAMILIES[family]
    return make(argument or default)


class Observation(NamedTuple):
    """A pattern of what the environment says in a user's turn."""

    pattern: re.Pattern[str]
    named: bool
    bodied: bool


class Observed(msgspec.Struct, frozen=True, gc=False):
    """What the environment said, and the tool it names."""

    text: str
    name: str | None = None


def observation_of(pattern: str) -> Observation:
    """A compiled observation pattern; UserError when it is no regular expression."""
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise UserError(f"The observation pattern '{pattern}' is no regular expression: {error}.") from error
    return Observation(compiled, "name" in compiled.groupindex, "content" in compiled.groupindex)


def observed(content: str, patterns: list[Observation]) -> Observed | None:
    """What the first fitting pattern makes of a turn's text, or None."""
    for pattern, named, bodied in patterns:
        match = pattern.match(content)
        if match is not None:
            text = match["content"] if bodied else None
            return Observed(content[match.end() :] if text is None else text, match["name"] if named else None)
    return None
