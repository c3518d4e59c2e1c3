"""Finds the answer in what a policy wrote: code, or the text after the usual marks. Nothing is executed here.

The rules are the same for every candidate and look at its text only, never at the expected answer.
"""

import re

_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_PYTHON = frozenset(("", "python", "py", "python3"))
_CODE_LINE = re.compile(r"^(?:def|class|import|from|async def)\s", re.MULTILINE)
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d+)?(?:/\d+)?")

_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_MARK = re.compile(r"(?:^|\n)[^\n]*?(?:####|\b(?:final\s+)?answer\s*(?:is)?\s*[:=])\s*\**\s*([^\n]+)", re.IGNORECASE)
_IS = re.compile(r"\banswer\s+is\s*:?\s*([^\n]+)", re.IGNORECASE)


def python_blocks(text: str) -> list[str]:
    """The fenced Python (or untagged) blocks, in order; the last one may lack its closing fence."""
    return [found[3] for found in _FENCE.finditer(text) if found[2].lower() in _PYTHON]


def defines(code: str, name: str) -> bool:
    """Whether the code seems to define `name` (a function, class or variable) at its top level."""
    plain = re.escape(name.split(".", maxsplit=1)[0])
    return (
        re.search(rf"^(?:(?:async\s+)?def\s+{plain}\b|class\s+{plain}\b|{plain}\s*[:=])", code, re.MULTILINE)
        is not None
    )


def python_code(text: str, entry: str = "") -> str | None:
    """The code of an answer: the last block that defines `entry`, else the last block, else a bare program.

    None when there is neither a block nor a line that only a program has.
    """
    blocks = python_blocks(text)
    if entry:
        defining = [block for block in blocks if defines(block, entry)]
        if defining:
            return defining[-1]
    if blocks:
        return blocks[-1]
    return text if _CODE_LINE.search(text) else None


def _boxed(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed{")
    for index in range(begin, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            if depth == 0:
                return text[begin:index]
            depth -= 1
    return None


def final_answer(text: str) -> str:
    """The answer in a text: the last <answer> tag, \\boxed{}, "answer:" or "####" mark, else the last line."""
    for found in (_last(_TAG, text), _boxed(text), _last(_MARK, text), _last(_IS, text)):
        if found is not None and found.strip():
            return _tidy(found)
    lines = [line for line in text.splitlines() if line.strip()]
    return _tidy(lines[-1]) if lines else ""


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return found[-1] if found else None


def _tidy(text: str) -> str:
    return text.strip().strip("*`").strip()


def is_number(text: str) -> bool:
    """Whether the whole text is one number: 7, -1,250.5, 1e-3, 2/3."""
    return any(char.isdigit() for char in text) and _NUMBER.fullmatch(text.strip()) is not None


def last_number(text: str) -> str | None:
    """The last number in a text, without thousands separators; what stands right of "=" counts first."""
    for part in (text.rpartition("=")[2], text):
        found = [each for each in _NUMBER.findall(part) if any(char.isdigit() for char in each)]
        if found:
            return str(found[-1]).replace(",", "")
    return None
