"""Mathematical equivalence by math-verify, with the gaps closed that it leaves; runs in a helper process (worker.py).

math-verify guards itself with signals, which only work in a main thread: here it has one, and the clock runs outside.
What it misses, tried with 0.9: a fraction against its decimal, sets in another order, text options, bare intervals.
"""

import re
from fractions import Fraction

_TEXT = re.compile(r"\\(?:text|mathrm|textbf|mathbf|operatorname)\s*\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]+)\}\s*\{([^{}]+)\}|\\[dt]?frac\s*(\d)\s*(\d)")
_NUMBER = re.compile(r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d{1,3})?(?:/\d++)?%?")
_OPTION = re.compile(r"\(?([A-Z])\)?\.?")
_INTERVAL = re.compile(r"([\[(])([^,\[\]()]+),([^,\[\]()]+)([\])])")
_WRAPPING = re.compile(r"^\$+|\$+$|^\\[(\[]|\\[)\]]$")
# 3\frac{1}{2} and 3 1/2 are three and a half, never 31/2.
_MIXED = re.compile(r"([-+]?)(\d+)\s*(?:\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}|\s(\d+)/(\d+))")
# 2^100000 alone keeps sympy busy for seconds, and a tower of small numbers for ever.
_POWER = re.compile(r"(?:\^|\*\*)\s*\{?\s*[-+]?\d{4,}")
_TOWER = re.compile(r"(?:\^|\*\*)\s*[{(]?\s*[-+]?(\d+)\s*(?:\^|\*\*)\s*[{(]?\s*[-+]?(\d+)(\s*[})]*\s*(?:\^|\*\*))?")
_MOST_POWER = 9_999


def same(request: dict[str, str]) -> dict[str, bool | str]:
    """{"same", "how"} for {"gold", "answer"}; a decimal is compared within the digits that it gives."""
    gold, answer = _plain(request["gold"]), _plain(request["answer"])
    if gold == answer:
        return {"same": True, "how": "text"}
    for how, test in (
        ("option", _options),
        ("number", _numbers),
        ("interval", _intervals),
        ("collection", _collections),
    ):
        found = test(gold, answer)
        if found is not None:
            return {"same": found, "how": how}
    if _huge(answer) or _huge(gold):
        return {"same": False, "how": "huge_power"}
    from math_verify import parse, verify  # type: ignore[import-untyped]

    left, right = parse(f"${gold}$", parsing_timeout=None), parse(f"${answer}$", parsing_timeout=None)
    if not left or not right:
        return {"same": False, "how": "unparsed"}
    # Strict: x = 1 is not 1 < x, a set no interval; the gold comes first.
    return {"same": bool(verify(left, right, strict=True, timeout_seconds=None)), "how": "math_verify"}


def _huge(text: str) -> bool:
    """Whether working the text out could take for ever."""
    if _POWER.search(text):
        return True
    for low, high, higher in _TOWER.findall(text):
        if higher or (int(low) > 1 and (int(high) > 13 or int(low) ** int(high) > _MOST_POWER)):
            return True
    return False


def _plain(text: str) -> str:
    text = text.strip().rstrip(".").strip()
    text = _WRAPPING.sub("", text).strip()
    text = _TEXT.sub(r"\1", text)
    for command in ("\\left", "\\right", "\\,", "\\;", "\\!", "\\ ", "~", "\\displaystyle"):
        text = text.replace(command, "")
    text = text.replace("\\%", "%").replace("\\$", "").replace("−", "-").replace("\\{", "{").replace("\\}", "}")
    return " ".join(text.split())


def _number(text: str) -> tuple[Fraction, Fraction] | None:
    """The exact value, and how much a decimal may be off (half of its last digit; 0 for exact forms)."""
    mixed = _MIXED.fullmatch(text.strip())
    if mixed and len(text) <= 80:
        over, below = int(mixed[3] or mixed[5]), int(mixed[4] or mixed[6])
        if not below:
            return None
        size = int(mixed[2]) + Fraction(over, below)
        return -size if mixed[1] == "-" else size, Fraction(0)
    text = _FRACTION.sub(lambda found: f"{found[1] or found[3]}/{found[2] or found[4]}", text).replace(" ", "")
    text = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", text)
    if len(text) > 80 or not _NUMBER.fullmatch(text):
        return None
    percent = text.endswith("%")
    whole, _, under = text.rstrip("%").partition("/")
    try:
        value = Fraction(whole) / Fraction(under) if under else Fraction(whole)
    except (ValueError, ZeroDivisionError):
        return None
    decimals = len(whole.partition(".")[2]) if "." in whole and "e" not in whole.lower() else None
    slack = Fraction(1, 2 * 10**decimals) if decimals and not under else Fraction(0)
    return (value / 100, slack / 100) if percent else (value, slack)


def _numbers(gold: str, answer: str) -> bool | None:
    left, right = _number(gold), _number(answer)
    if left is None or right is None:
        return None
    if left[0] == right[0]:
        return True
    # A rounded decimal is right only when it has at least three digits, and only against a value that needs rounding.
    slack = right[1]
    needs = left[1] == 0 and left[0].denominator not in (1,) and Fraction(str(float(left[0]))) != left[0]
    if needs and 0 < slack <= Fraction(1, 2000):
        return abs(left[0] - right[0]) <= slack
    return False


def _options(gold: str, answer: str) -> bool | None:
    left, right = _OPTION.fullmatch(gold), _OPTION.fullmatch(answer)
    return left[1] == right[1] if left and right else None


def _intervals(gold: str, answer: str) -> bool | None:
    left, right = _INTERVAL.fullmatch(gold), _INTERVAL.fullmatch(answer)
    if not left or not right:
        return None
    if left[1] != right[1] or left[4] != right[4]:
        return False
    return all(_item(left[index].strip(), right[index].strip()) for index in (2, 3))


def _collections(gold: str, answer: str) -> bool | None:
    """Sets in braces, compared without order; every other bracket keeps its order and is left to math-verify."""
    if not (gold.startswith("{") and gold.endswith("}") and answer.startswith("{") and answer.endswith("}")):
        return None
    left, right = _split(gold[1:-1]), _split(answer[1:-1])
    if len(left) > 50 or len(right) > 50:
        return None
    return all(any(_item(a, b) for b in right) for a in left) and all(any(_item(a, b) for a in left) for b in right)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _item(left: str, right: str) -> bool:
    return bool(same({"gold": left, "answer": right})["same"])
