"""Two texts are shown where they differ, and their lines keep step."""

from hypothesis import given
from hypothesis import strategies as st

from gristmill.views.differences import side_by_side

LEAD = "Please write a function which sorts the list of"


def test_the_shared_lead_is_shortened_and_both_sides_are_aligned() -> None:
    one = f"{LEAD} invoices by date, and explain each step of it in a few words. Variant a."
    other = f"{LEAD} stars by date, and explain each step of it in a few words. Variant b."
    assert side_by_side(one, other, 100) == [
        (
            "… sorts the list of invoices by date, and … few words. Variant a.",
            "… sorts the list of stars    by date, and … few words. Variant b.",
        )
    ]


def test_a_word_that_only_one_has_leaves_room_in_the_other() -> None:
    assert side_by_side("a b c d", "a b d", 100) == [("a b c d", "a b   d")]


def test_long_lines_go_on_below_in_step() -> None:
    one, other = "start " + "x y " * 30, "begin " + "z y " * 30
    rows = side_by_side(one, other, 20)
    assert len(rows) == 2 and all(len(line) <= 20 for row in rows for line in row)
    assert rows[0] == ("start x y x y x y x", "begin z y z y z y z")


def test_a_difference_inside_of_a_long_word_is_seen() -> None:
    ((first, second),) = side_by_side("0" * 200 + "a", "0" * 200 + "b", 100)
    assert first.endswith("0a") and second.endswith("0b") and len(first) < 60


def test_where_a_text_was_cut_is_no_difference() -> None:
    ((first, second),) = side_by_side("one b c d e f g h i j…", "other b c d e f g h…", 100)
    assert (first, second) == ("one   b c d e f g h …", "other b c d e f g h …")


@given(st.text(), st.text(), st.integers(1, 50))
def test_any_two_texts_have_lines_of_the_width(one: str, other: str, width: int) -> None:
    rows = side_by_side(one, other, width, rows=3)
    assert len(rows) <= 3
    assert all(len(line) <= width for row in rows for line in row)
    if one == other:
        assert all(mine == others for mine, others in rows)
