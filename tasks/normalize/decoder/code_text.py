"""Code as action: `<execute>` blocks (CodeAct) and fenced blocks.

The tool is named after the language; the raw arguments are the code as it stands.
"""

import re
from functools import lru_cache

from tasks.normalize.decoder.found import Decoded, Found, code_call

_FENCE = re.compile(r"```([\w+#.-]*)[ \t]*\r?\n(.*?)(?:\r?\n)?[ \t]*```", re.DOTALL)
_INLINE = re.compile(r"```([^\n`]+)```")


@lru_cache(maxsize=8)
def _tag(tag: str) -> re.Pattern[str]:
    return re.compile(rf"<{re.escape(tag)}>\n?(.*?)\n?</{re.escape(tag)}>", re.DOTALL)


def decode_tag(text: str, tag: str = "execute", language: str = "python") -> Decoded | None:
    """The blocks `<tag>…</tag>` of `text`, or None when there are none."""
    if f"<{tag}>" not in text:
        return None
    return _blocks(text, [(m.start(), m.end(), code_call(language, m.group(1))) for m in _tag(tag).finditer(text)])


def decode_fenced(text: str, language: str = "bash", which: str = "last") -> Decoded | None:
    """The fenced blocks of `text`: the last, the first or all; `language` where a fence names none.

    A fence within one line ("```type [5] [x]```") counts where there is no block.
    """
    if "```" not in text:
        return None
    found = [(m.start(), m.end(), code_call(m.group(1).lower() or language, m.group(2))) for m in _FENCE.finditer(text)]
    if not found:
        found = [(m.start(), m.end(), code_call(language, m.group(1))) for m in _INLINE.finditer(text)]
    if which != "all":
        found = found[-1:] if which == "last" else found[:1]
    return _blocks(text, found)


def decode_whole(text: str, language: str = "python") -> Decoded | None:
    """The whole text as code, or None when it is blank."""
    return Decoded("", (code_call(language, text),)) if text.strip() else None


def _blocks(text: str, found: list[tuple[int, int, Found]]) -> Decoded | None:
    if not found:
        return None
    ends = [end for _, end, _ in found]
    starts = [start for start, _, _ in found[1:]] + [len(text)]
    after = "".join(text[end:start] for end, start in zip(ends, starts, strict=True))
    return Decoded(text[: found[0][0]], tuple(call for _, _, call in found), after)
