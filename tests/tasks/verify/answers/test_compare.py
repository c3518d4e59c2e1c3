"""Equality of JSON values in the trusted process."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.verify.answers.compare import equal, same_number

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_a_value_equals_itself(value: Any) -> None:
    assert equal(value, value)
    assert equal(value, value, unordered=True)
    assert equal([value, 1], [1, value], unordered=True)


@given(JSON, JSON)
def test_equality_is_symmetric(left: Any, right: Any) -> None:
    assert equal(left, right) == equal(right, left)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, True, False),
        (0, False, False),
        (1, 1.0, True),
        (1, "1", False),
        (None, False, False),
        ([], {}, False),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (0.1 + 0.2, 0.3, True),
        (0.3333, 1 / 3, False),
        (10**400, 10**400, True),
        (10**400, 1.5, False),
        (1e308, 10**400, False),
        (2**53 + 1, 2**53, False),
        ("\u00e9", "e\u0301", False),
    ],
)
def test_cases(left: Any, right: Any, same: bool) -> None:
    assert equal(left, right) is same


def test_tolerance_is_for_numbers_that_are_not_whole() -> None:
    assert equal(0.333333, 1 / 3, 1e-5)
    assert not equal(0.3333, 1 / 3, 1e-5)
    assert not equal(100, 101, 0.5)
    assert equal([[0.1], {"x": 2.0}], [[0.1000001], {"x": 2.0000001}], 1e-6)
    assert equal([0.2, 0.1], [0.1000001, 0.2000001], 1e-5, unordered=True)


def test_nothing_is_equal_to_a_number_that_is_none() -> None:
    assert not equal(math.nan, math.nan)
    assert not equal(1.0, math.nan, 1e9)
    assert not equal(1.0, math.inf, 1e9)


def test_deep_values_and_colliding_numbers_are_compared_quickly() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert equal(deep, deep)
    colliding = [i * (2**61 - 1) for i in range(20_000)]
    assert equal(colliding, colliding[::-1], unordered=True)
    assert not equal(colliding, [*colliding[1:], 1], unordered=True)


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ("0.3333333", "0.333333", True),
        ("3", "2.9999999", True),
        ("3", "3.0", True),
        ("1e20", "1.00000001e20", True),
        ("1e-7", "0", True),
        (".5", "5e-1", True),
        ("1000000007", "1000000008", False),
        ("1000000007", "1000000008.0", False),
        ("1000000007", "1.000000007e9", True),
        ("10", "1_0", False),
        ("10", "\u0661\u0660", False),
        ("inf", "5", False),
        ("5", "inf", False),
        ("-Infinity", "-inf", False),
        ("nan", "nan", False),
        ("1" * 310, "5", False),
        ("1" * 310, "1" * 309 + "2", False),
        ("1" * 310, "+" + "1" * 310, True),
        ("1e999", "5", False),
        ("1e999", "2e999", False),
        ("0.5", "1e999999", False),
        ("0.5", "1e" + "9" * 300, False),
        ("0x10", "16", False),
    ],
)
def test_numbers_written_as_text(want: str, got: str, same: bool) -> None:
    assert same_number(want, got, 1e-6) is same


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_no_text_of_a_number_is_near_one_without_bounds(left: float, right: float) -> None:
    if math.isinf(left) or math.isinf(right):
        assert not same_number(repr(left), repr(right), 1e-6)


@given(st.integers(), st.integers())
def test_whole_numbers_as_text_are_the_same_only_when_equal(left: int, right: int) -> None:
    assert same_number(str(left), str(right), 0.5) is (left == right)
