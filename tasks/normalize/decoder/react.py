"""ReAct text: a thought, then an action, in lines that open with a keyword.

The action is `name[input]`, `name(input)`, or a name with the input in a line of its own ("Action Input:"); a
plain sentence ("go to shelf 1") becomes a call of the tool `act`.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from schemas.vocabulary import ArgumentState
from tasks.normalize.decoder.found import Decoded, Found, canonical, from_text

ACT = "act"
_BRACKET = re.compile(r"([A-Za-z_][\w.-]*)\s*\[(.*)\]\s*", re.DOTALL)
_PAREN = re.compile(r"([A-Za-z_][\w.-]*)\s*\((.*)\)\s*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


class _Pattern(NamedTuple):
    action: re.Pattern[str]
    given: re.Pattern[str]


@lru_cache(maxsize=8)
def _pattern(action: str) -> _Pattern:
    return _Pattern(
        re.compile(rf"^[ \t]*{re.escape(action)}[ \t]*:[ \t]*", re.MULTILINE | re.IGNORECASE),
        re.compile(rf"^[ \t]*{re.escape(action)} Input[ \t]*:[ \t]*", re.MULTILINE | re.IGNORECASE),
    )


def decode(text: str, action: str = "Action") -> Decoded | None:
    """The action of `text` (the last line that opens with the keyword `action`), or None when there is none."""
    pattern = _pattern(action)
    if action.lower() not in text.lower():
        return None
    last = None
    for found in pattern.action.finditer(text):
        last = found
    if last is None:
        return None
    body = text[last.end() :]
    call = _call(body, pattern)
    return Decoded(text[: last.start()], (call,)) if call else None


def _call(body: str, pattern: _Pattern) -> Found | None:
    given = pattern.given.search(body)
    if given:
        name = body[: given.start()].strip()
        if not _NAME.fullmatch(name):
            return None
        raw = body[given.end() :]
        found = from_text(name, raw)
        return found if found.json is not None else _input(name, raw, raw.strip())
    stripped = body.strip()
    if not stripped:
        return None
    named = _BRACKET.fullmatch(stripped) or _PAREN.fullmatch(stripped)
    if named:
        return _input(named.group(1), named.group(2), named.group(2))
    if _NAME.fullmatch(stripped):
        return Found(stripped, "", "{}", ArgumentState.PARSED)
    return _input(ACT, body, stripped)


def _input(name: str, raw: str, value: str) -> Found:
    return Found(name, raw, canonical({"input": value}), ArgumentState.PARSED)
