"""Finds the answer in what a policy wrote: code, or the text after the usual marks. Nothing is executed here.

The rules are the same for every candidate and look at its text only, never at the expected answer.
"""

import re
from fractions import Fraction

# Possessive quantifiers keep a wall of backticks from being tried at every length.
_FENCE = re.compile(
    r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+\1[ \t]*+$|\Z)", re.MULTILINE | re.DOTALL
)
_PYTHON = frozenset(("", "python", "py", "python3"))
_CODE_LINE = re.compile(r"^(?:def|class|import|from|async def)\s", re.MULTILINE)
_QUERY = re.compile(r"\s*+(?:select|with|values|insert|update|delete)\b", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?|\.\d++)(?:[eE][-+]?\d++)?(?:/\d++)?")
_RESULT = re.compile(rf"[\s*_`$]{{0,4}}({_NUMBER.pattern})(?!\s*+[-+*/×÷^]\s*+\d)")
_CLOSING = re.compile(
    rf"(?:\b(?:is|are|equals|equal to|gives|makes)|:)\s{{0,3}}[*_`$]{{0,3}}({_NUMBER.pattern})\W{{0,4}}$"
)
_MARK = re.compile(r"####|\banswer\b", re.IGNORECASE)
_AFTER_MARK = re.compile(r"[*_`]{0,3}\s{0,3}(?:is\b\s{0,3}[:=]?|[:=])[*_`]{0,3}", re.IGNORECASE)


def python_blocks(text: str) -> list[str]:
    """The fenced Python (or untagged) blocks, in order; the last one may lack its closing fence."""
    return [found[3] for found in _FENCE.finditer(text) if found[2].lower() in _PYTHON]


def json_text(text: str) -> str | None:
    """The JSON document of an answer: the last block fenced as JSON (or untagged), else the whole text.

    None when there is no text that starts like a document.
    """
    blocks = [found[3] for found in _FENCE.finditer(text) if found[2].lower() in ("", "json")]
    chosen = (blocks[-1] if blocks else text).strip()
    return chosen if chosen[:1] in ("{", "[", '"', "-", "t", "f", "n") or chosen[:1].isdigit() else None


def sql_text(text: str) -> str | None:
    """The query of an answer: the last block fenced as SQL (or untagged), else a text that starts like a query."""
    blocks = [found[3] for found in _FENCE.finditer(text) if found[2].lower() in ("", "sql", "sqlite")]
    if blocks:
        return blocks[-1].strip() or None
    return text.strip() if _QUERY.match(text) else None


def diff_text(text: str) -> str | None:
    """The unified diff of an answer: its blocks fenced as diff or patch, else the text from the first header on."""
    blocks = [found[3] for found in _FENCE.finditer(text) if found[2].lower() in ("diff", "patch")]
    if blocks:
        return "".join(blocks)
    start = text.find("--- ")
    return text[start:] if start == 0 or (start > 0 and text[start - 1] == "\n") else None


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


def _tagged(text: str) -> str | None:
    lowered = text.lower()
    end = lowered.rfind("</answer>")
    start = lowered.rfind("<answer>", 0, end) if end >= 0 else -1
    return text[start + len("<answer>") : end] if start >= 0 else None


def _marked(text: str) -> str | None:
    """What follows the last "####", "answer:" or "answer is", on its line or, where that is empty, on the next."""
    for mark in reversed(list(_MARK.finditer(text))):
        start = mark.end()
        if mark[0] != "####":
            after = _AFTER_MARK.match(text, start)
            if after is None:
                continue
            start = after.end()
        lines = text[start:].lstrip().splitlines()
        if lines:
            return lines[0]
    return None


def final_answer(text: str) -> str:
    """The answer in a text: the last <answer> tag, \\boxed{}, "answer:" or "####" mark, else the last line."""
    for found in (_tagged(text), _boxed(text), _marked(text)):
        if found is not None and found.strip():
            return _tidy(found)
    lines = [line for line in text.splitlines() if line.strip()]
    return _tidy(lines[-1]) if lines else ""


def _tidy(text: str) -> str:
    return text.strip().strip("*`").strip()


def is_number(text: str) -> bool:
    """Whether the whole text is one number: 7, -1,250.5, 1e-3, 2/3."""
    return any(char.isdigit() for char in text) and _NUMBER.fullmatch(text.strip()) is not None


def stated_number(text: str) -> str | None:
    """The number that a line states as its result, without thousands separators; None where it states none.

    A sentence that merely ends in the right number ("... when 3 - 0 is divided by 3.") states nothing: what counts is
    the number right of the last "=", the only number of the line, or one after "is", "equals" or a colon at its end.
    """
    _, equals, right = text.rpartition("=")
    if equals and any(char.isdigit() for char in right):
        found = _RESULT.match(right)
        return str(found[1]).replace(",", "") if found else None
    numbers = {each.replace(",", "") for each in _NUMBER.findall(text) if any(char.isdigit() for char in each)}
    if len(numbers) == 1:
        return str(numbers.pop())
    closing = _CLOSING.search(text)
    return str(closing[1]).replace(",", "") if closing else None


def exact_number(text: str) -> Fraction | None:
    """Exact, so that 0.1 is a tenth; None for what is no number or far too large to be meant."""
    if len(text) > 60 or ("e" in text.lower() and abs(int(re.split("[eE]", text)[1])) > 300):
        return None
    try:
        whole, _, under = text.replace(",", "").partition("/")
        return Fraction(whole) / Fraction(under) if under else Fraction(whole)
    except (ValueError, ZeroDivisionError):
        return None
