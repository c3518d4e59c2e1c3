"""Numbers that no recipe can mean are refused by the word they stand under; defaults always pass."""

import pytest

from schemas.errors import UserError
from schemas.vocabulary import Kind
from tasks.bounds import out_of_bounds
from tasks.registry import build

TEACHER = {"use": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}


@pytest.mark.parametrize(
    ("option", "value"),
    [("parallel", 0), ("attempts", 0), ("timeout_s", 0.0), ("temperature", float("inf")), ("prompt_price", -0.1)],
)
def test_a_number_outside_its_range_is_refused(option: str, value: float) -> None:
    with pytest.raises(UserError, match=option):
        build(Kind.TEACHER, {**TEACHER, option: value})


def test_a_number_in_a_table_is_looked_at_too() -> None:
    with pytest.raises(UserError, match=r"max_tokens\.code = 0"):
        build(Kind.HARNESS, {"use": "direct", "max_tokens": {"code": 0}})


def test_a_default_passes_even_where_its_word_means_more_elsewhere() -> None:
    # 0 stands for "no limit" here, and nowhere else.
    exporter = build(Kind.EXPORTER, {"use": "tokens", "max_tokens": 0})
    assert out_of_bounds(exporter) is None
