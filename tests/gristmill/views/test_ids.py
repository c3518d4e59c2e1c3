"""Ids cut for people carry a mark, and a comparison that no id can fulfil is named."""

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from gristmill.views.ids import given, never_equal, short

ID = "cfd0591d58ca5f0a1754bcdbefacebef"


@for_all(st.text("0123456789abcdef", min_size=32, max_size=32))
def test_what_is_shown_of_an_id_is_taken_as_its_start(whole: str) -> None:
    shown = short(f'{{"kept":"{whole}"}}').split('"')[3]
    assert shown.endswith("…") and len(shown) == 13
    assert whole.startswith(given(shown)) and given(shown) == given(f" {shown[:-1]}... ") == shown[:-1]
    assert given(whole) == whole


def test_what_is_no_id_stays_as_it_is() -> None:
    for text in ("0" * 31, "0" * 64, "20261201T015007-0378e4", "plain"):
        assert short(text) == text


@pytest.mark.parametrize(
    "where",
    [
        "id = 'cfd0591d58ca'",
        "t.id='cfd0591d58ca…'",
        "d.\"item_id\" == 'cfd0591d58ca...'",
        "task_id IN ('cfd0591d58ca')",
    ],
)
def test_a_short_id_in_a_comparison_is_named(where: str) -> None:
    (hint,) = never_equal(f"select 1 from t where {where} or {where}")
    assert "ids have 32 signs" in hint and "id, 'cfd0591d58ca')" in hint


@pytest.mark.parametrize(
    "where",
    [
        f"id = '{ID}'",
        "starts_with(id, 'cfd0591d58ca')",
        "id like 'cfd0591d58ca%'",
        "source_id = 'abcd'",
        "run_id = '20261201'",
        "reason = 'dead'",
    ],
)
def test_what_can_be_true_is_not(where: str) -> None:
    assert list(never_equal(f"select 1 from t where {where}")) == []
