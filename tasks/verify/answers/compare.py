"""Equality of JSON values, decided in the trusted process.

Only data is compared, by its JSON type: no method of a candidate's object can take part, a bool is never a
number, and values that only hash alike cost nothing because nothing of a candidate's is hashed but text.
"""

import json
import math
import re
from collections import Counter
from decimal import Decimal
from typing import Any

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_LONGEST = 400

# Noise of binary floating point; a task that needs more says so by its tolerance.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12


def equal(expected: Any, got: Any, tolerance: float | None = None, *, unordered: bool = False) -> bool:
    """Whether `got` is the expected JSON value.

    tolerance: absolute and relative tolerance of numbers when one of them is not whole; None: only the noise of
    binary floating point. unordered: the outermost array may have any order.
    """
    if unordered and isinstance(expected, list) and isinstance(got, list):
        return _same_items(expected, got, tolerance)
    stack = [(expected, got)]
    while stack:
        left, right = stack.pop()
        if isinstance(left, bool) or isinstance(right, bool):
            if left is not right:
                return False
        elif isinstance(left, int | float) and isinstance(right, int | float):
            if not _near(left, right, tolerance):
                return False
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            stack += zip(left, right, strict=True)
        elif isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            stack += ((left[key], right[key]) for key in left)
        elif type(left) is not type(right) or left != right:
            return False
    return True


def same_number(want: str, got: str, tolerance: float) -> bool:
    """Whether two texts are the same number in plain decimal notation, `tolerance` apart at most (absolute, relative).

    An expected whole number is met by no other whole number, however near. Infinity, NaN and numbers beyond the range
    of floats are near nothing.
    """
    if max(len(want), len(got)) > _LONGEST or not (_DECIMAL.fullmatch(want) and _DECIMAL.fullmatch(got)):
        return False
    given = Decimal(got)
    if _WHOLE.fullmatch(want) and given == given.to_integral_value():
        return given == Decimal(want)
    left, right = float(want), float(got)
    return math.isfinite(left) and math.isfinite(right) and abs(left - right) <= tolerance * max(1.0, abs(left))


def _near(left: float, right: float, tolerance: float | None) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    try:
        if not (math.isfinite(left) and math.isfinite(right)):
            return left == right
        if tolerance is None:
            return math.isclose(left, right, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
        return math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:
        # A whole number beyond the range of floats is near no float.
        return False


def _same_items(expected: list[Any], got: list[Any], tolerance: float | None) -> bool:
    if len(expected) != len(got):
        return False
    if tolerance is None and not _has_float(expected) and not _has_float(got):
        # Keys are canonical texts: numbers chosen to collide as hash keys do not slow this down.
        return Counter(map(_text, expected)) == Counter(map(_text, got))
    left = sorted(expected, key=_text)
    right = sorted(got, key=_text)
    if equal(left, right, tolerance):
        return True
    rest = list(got)
    for item in expected:
        index = next((i for i, other in enumerate(rest) if equal(item, other, tolerance)), None)
        if index is None:
            return False
        del rest[index]
    return True


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _has_float(value: Any) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            return True
        if isinstance(item, list):
            stack += item
        elif isinstance(item, dict):
            stack += item.values()
    return False
