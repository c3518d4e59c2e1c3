"""`<function=NAME><parameter=KEY>VALUE</parameter></function>` text, as SWE-agent and OpenHands render calls.

The text has no types, so every value stays text. One line break right after the opening tag and one right
before the closing tag belong to the markup and are left out; the raw text keeps them. A call without its closing
tag is whole when its parameters are (the tag is a usual stop sequence), else truncated.
"""

from schemas.vocabulary import ArgumentState
from tasks.normalize.decoder.found import Decoded, Found, canonical

_OPEN, _CLOSE = "<function=", "</function>"
_P_OPEN, _P_CLOSE = "<parameter=", "</parameter>"


def decode(text: str) -> Decoded | None:
    """The calls in `text`, or None when there are none. Text between two calls is kept with the text after them."""
    at = text.find(_OPEN)
    if at < 0:
        return None
    before, calls, after = text[:at], [], ""
    last = text.rfind(_P_CLOSE)
    while at >= 0:
        start = text.find(">", at)
        if start < 0:
            break
        call, end = _call(text, text[at + len(_OPEN) : start], start + 1, last)
        calls.append(call)
        if end < 0:
            break
        at = text.find(_OPEN, end)
        after += text[end:] if at < 0 else text[end:at]
    return Decoded(before, tuple(calls), after) if calls else None


def _call(text: str, name: str, start: int, last: int) -> tuple[Found, int]:
    """The call whose body begins at `start`, and where the text goes on after it (-1: it has no end)."""
    close = text.find(_CLOSE, start)
    if close >= 0:
        body = text[start:close]
        arguments = _parameters(body)
        if arguments is not None:
            return Found(name, body, canonical(arguments), ArgumentState.PARSED), close + len(_CLOSE)
    return _careful(text, name, start, close, last)


def _parameters(body: str) -> dict[str, str] | None:
    """The parameters of a plain body; None where a value holds markup or something else is odd."""
    pieces = body.split(_P_OPEN)
    arguments: dict[str, str] = {}
    if pieces[0].strip() or len(pieces) - 1 != body.count(_P_CLOSE):
        return None
    for piece in pieces[1:]:
        key, named, rest = piece.partition(">")
        value, closed, tail = rest.partition(_P_CLOSE)
        if not named or not closed or key in arguments or tail.strip():
            return None
        arguments[key] = value.removeprefix("\n").removesuffix("\n")
    return arguments


def _careful(text: str, name: str, start: int, close: int, last: int) -> tuple[Found, int]:
    """The same with one eye on markup inside of values; `close` is the first closing tag there is.

    last: where the text's last `</parameter>` stands, so that no call searches the rest of the text in vain.
    """
    arguments: dict[str, str] = {}
    at, whole = start, True
    while True:
        begin = text.find(_P_OPEN, at) if close < 0 else text.find(_P_OPEN, at, close)
        if begin < 0:
            break
        value = text.find(">", begin) + 1
        end = text.find(_P_CLOSE, value) if value <= last else -1
        if not value or end < 0:
            whole = False
            break
        key = text[begin + len(_P_OPEN) : value - 1]
        if key in arguments or (begin > at and text[at:begin].strip()):
            whole = False
        arguments[key] = text[value:end].removeprefix("\n").removesuffix("\n")
        at = end + len(_P_CLOSE)
        # A closing tag inside of a value is text.
        if 0 <= close < at:
            close = text.find(_CLOSE, at)
    body = text[start:] if close < 0 else text[start:close]
    if (text[at:] if close < 0 else text[at:close]).strip():
        whole = False
    go_on = -1 if close < 0 else close + len(_CLOSE)
    if not whole or (close < 0 and not arguments):
        state = ArgumentState.TRUNCATED if close < 0 else ArgumentState.UNPARSED
        return Found(name, body, None, state), go_on
    return Found(name, body, canonical(arguments), ArgumentState.PARSED), go_on
