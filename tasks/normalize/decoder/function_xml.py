"""`<function=NAME><parameter=KEY>VALUE</parameter></function>` text, as SWE-agent and OpenHands render calls.

The text has no types, so every value stays text. One line break right after the opening tag and one right
before the closing tag belong to the markup and are left out; the raw text keeps them.
"""

from schemas.vocabulary import ArgumentState
from tasks.normalize.decoder.found import Decoded, Found, canonical

_OPEN, _CLOSE = "<function=", "</function>"
_P_OPEN, _P_CLOSE = "<parameter=", "</parameter>"


def decode(text: str) -> Decoded | None:
    """The calls in `text`, or None when there are none."""
    at = text.find(_OPEN)
    if at < 0:
        return None
    before, calls, after = text[:at], [], []
    while at >= 0:
        start = text.find(">", at)
        if start < 0:
            break
        name = text[at + len(_OPEN) : start]
        end = _end(text, start + 1)
        calls.append(_call(name, text[start + 1 :] if end < 0 else text[start + 1 : end], cut=end < 0))
        if end < 0:
            break
        end += len(_CLOSE)
        at = text.find(_OPEN, end)
        after.append(text[end:] if at < 0 else text[end:at])
    return Decoded(before, tuple(calls), "".join(after)) if calls else None


def _end(text: str, start: int) -> int:
    """Where the call closes: the first `</function>` outside of a parameter, else the last one there is."""
    while True:
        close = text.find(_CLOSE, start)
        inner = text.find(_P_OPEN, start)
        if close < 0 or inner < 0 or close < inner:
            return close
        start = text.find(_P_CLOSE, inner)
        if start < 0:
            return close


def _call(name: str, body: str, cut: bool) -> Found:
    arguments: dict[str, str] = {}
    at = 0
    whole = not cut
    while whole:
        begin = body.find(_P_OPEN, at)
        if begin < 0:
            whole = not body[at:].strip()
            break
        start = body.find(">", begin)
        end = body.find(_P_CLOSE, start)
        if start < 0 or end < 0 or body[at:begin].strip():
            whole = False
            break
        key = body[begin + len(_P_OPEN) : start]
        value = body[start + 1 : end]
        if key in arguments:
            whole = False
            break
        arguments[key] = value.removeprefix("\n").removesuffix("\n")
        at = end + len(_P_CLOSE)
    if not whole:
        return Found(name, body, None, ArgumentState.TRUNCATED if cut else ArgumentState.UNPARSED)
    return Found(name, body, canonical(arguments), ArgumentState.PARSED)
