"""Code as action: `<execute>` blocks (CodeAct) and fenced blocks.

The tool is named after the language; the raw arguments are the code as it stands. Blocks are found by searching
for their marks, never by a backtracking pattern: texts are long and on every record's way.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tasks.normalize.decoder.found import Decoded, code_call

_FENCE = "```"


class _Block(NamedTuple):
    start: int
    end: int
    language: str
    code: str


def decode_tag(text: str, tag: str = "execute", language: str = "python") -> Decoded | None:
    """The blocks `<tag>…</tag>` of `text`, or None when there are none; a block that never closes is text."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    at = text.find(opening)
    blocks: list[_Block] = []
    while at >= 0:
        begin = at + len(opening)
        end = text.find(closing, begin)
        if end < 0:
            break
        code = text[begin:end].removeprefix("\n").removesuffix("\n")
        blocks.append(_Block(at, end + len(closing), language, code))
        at = text.find(opening, end)
    return _decoded(text, blocks)


def decode_fenced(text: str, language: str = "bash", which: str = "last") -> Decoded | None:
    """The fenced blocks of `text`: the last, the first or all; `language` where a fence names none.

    A fence within one line ("```type [5] [x]```") counts where there is no block.
    """
    if _FENCE not in text:
        return None
    blocks = list(_fences(text, language)) or list(_inline(text, language))
    if which != "all":
        blocks = blocks[-1:] if which == "last" else blocks[:1]
    return _decoded(text, blocks)


def decode_whole(text: str, language: str = "python") -> Decoded | None:
    """The whole text as code, or None when it is blank."""
    return Decoded("", (code_call(language, text),)) if text.strip() else None


def _fences(text: str, language: str) -> Iterator[_Block]:
    """Blocks between two fences that each begin a line of their own; the info string is one word or nothing."""
    at = _line_fence(text, 0)
    while at >= 0:
        line_end = text.find("\n", at)
        if line_end < 0:
            return
        info = text[at + 3 : line_end].strip()
        if " " in info or "`" in info:
            at = _line_fence(text, line_end)
            continue
        end = _line_fence(text, line_end)
        if end < 0:
            return
        # The line break before the closing fence belongs to the fence.
        stop = text.rfind("\n", line_end, end)
        code = text[line_end + 1 : stop] if stop > line_end else ""
        yield _Block(at, end + 3, info.lower() or language, code.removesuffix("\r"))
        line_end = text.find("\n", end)
        at = -1 if line_end < 0 else _line_fence(text, line_end)


def _line_fence(text: str, start: int) -> int:
    """The next fence from `start` on that begins a line; every line is looked at once."""
    at = text.find(_FENCE, start)
    while at > 0 and text[at - 1] != "\n" and text[text.rfind("\n", 0, at) + 1 : at].strip():
        line_end = text.find("\n", at)
        at = -1 if line_end < 0 else text.find(_FENCE, line_end)
    return at


def _inline(text: str, language: str) -> Iterator[_Block]:
    at = text.find(_FENCE)
    while at >= 0:
        end = text.find(_FENCE, at + 3)
        if end < 0:
            return
        code = text[at + 3 : end]
        if code and "\n" not in code:
            yield _Block(at, end + 3, language, code)
            at = text.find(_FENCE, end + 3)
        else:
            at = end


def _decoded(text: str, blocks: list[_Block]) -> Decoded | None:
    if not blocks:
        return None
    if len(blocks) == 1:
        start, end, language, code = blocks[0]
        return Decoded(text[:start], (code_call(language, code),), text[end:])
    starts = [block.start for block in blocks[1:]] + [len(text)]
    after = "".join(text[block.end : start] for block, start in zip(blocks, starts, strict=True))
    return Decoded(text[: blocks[0].start], tuple(code_call(b.language, b.code) for b in blocks), after)
