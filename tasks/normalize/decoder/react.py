"""ReAct text: a thought, then an action, in lines that open with a keyword (as it is spelt).

The action is `name[input]`, `name(input)`, or a name with the input in a line of its own ("Action Input:"); a
plain sentence ("go to shelf 1") becomes a call of the tool `act`.
"""

import re

from schemas.vocabulary import ArgumentState
from tasks.normalize.decoder.found import Decoded, Found, canonical, from_text

ACT = "act"
_BRACKET = re.compile(r"([A-Za-z_][\w.-]*)\s*\[(.*)\]\s*", re.DOTALL)
_PAREN = re.compile(r"([A-Za-z_][\w.-]*)\s*\((.*)\)\s*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def decode(text: str, action: str = "Action") -> Decoded | None:
    """The action of `text` (the last line that opens with the keyword `action`), or None when there is none."""
    opening = action + ":"
    at = text.rfind(opening)
    while at > 0:
        line = text.rfind("\n", 0, at) + 1
        first = text.find(opening, line)
        if not text[line:first].strip(" \t*#"):
            at = first
            break
        at = text.rfind(opening, 0, line)
    if at < 0:
        return None
    call = _call(text[at + len(opening) :], f"\n{action} Input:")
    return Decoded(text[:at], (call,)) if call else None


def _call(body: str, opening: str) -> Found | None:
    given = body.find(opening)
    if given >= 0:
        name = body[:given].strip()
        if not _NAME.fullmatch(name):
            return None
        raw = body[given + len(opening) :]
        found = from_text(name, raw)
        return found if found.json is not None else _input(name, raw, raw.strip())
    stripped = body.strip()
    if not stripped:
        return None
    last = stripped[-1]
    if last in "])":
        named = (_BRACKET if last == "]" else _PAREN).fullmatch(stripped)
        if named:
            return _input(named.group(1), named.group(2), named.group(2))
    elif " " not in stripped and _NAME.fullmatch(stripped):
        return Found(stripped, "", "{}", ArgumentState.PARSED)
    return _input(ACT, body, stripped)


def _input(name: str, raw: str, value: str) -> Found:
    return Found(name, raw, canonical({"input": value}), ArgumentState.PARSED)
