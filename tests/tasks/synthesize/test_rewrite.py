"""Which rewrites of a statement stand, which reason the others get, and where the threshold of wording lies."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.synthesize.rewrite import MAX_SIMILARITY, extract, judge, names_in, numbers, similarity, split_prompt

MEASURED = tomllib.loads((Path(__file__).parent / "rewrites.toml").read_text(encoding="utf-8"))["statement"]

SUM = "Return the sum of two whole numbers a and b."
VOWELS = "Return how many vowels (a, e, i, o, u) are in the string text; capital letters count too."
LARGEST = "Give the largest value of text."
AREA = "Call area(width, height) on each."
FIZZ = "Return 'Fizz' for multiples of 3 and 'Buzz' for multiples of 5, otherwise the number n as a string."


def test_the_threshold_separates_trivial_edits_from_paraphrases() -> None:
    trivial = [similarity(s["original"], text, s["names"]) for s in MEASURED for text in s["trivial"]]
    anew = [similarity(s["original"], text, s["names"]) for s in MEASURED for text in s["paraphrases"]]
    assert (len(trivial), len(anew)) == (31, 30)
    assert round(min(trivial), 2) == 0.55 > MAX_SIMILARITY
    assert round(max(anew), 2) == 0.34 < MAX_SIMILARITY


def test_no_trivial_edit_stands_and_most_paraphrases_do() -> None:
    assert all(judge(s["original"], text, s["names"]).reason for s in MEASURED for text in s["trivial"])
    stands = [not judge(s["original"], text, s["names"]).reason for s in MEASURED for text in s["paraphrases"]]
    assert sum(stands) == 19


@pytest.mark.parametrize(
    ("original", "rewrite", "reason", "lost"),
    [
        (SUM, "Add the whole numbers a and b and hand back their total.", "lost_number", ("2",)),
        (SUM, "Add 2 whole numbers a and b, such as 3 and 4, and hand back their total.", "added_number", ("3", "4")),
        (SUM, "Add two whole numbers x and y and hand back their total.", "lost_name", ("a", "b")),
        (SUM, "Add two whole numbers a and b, and hand back their total.", "", ()),
        (SUM, SUM, "too_similar", ()),
        (SUM, f"{SUM} That is all there is to do here, nothing else.", "too_similar", ()),
        (SUM, f"This is your assignment for today, read it well: {SUM}", "too_similar", ()),
        (SUM, "Add.", "not_a_statement", ()),
        (SUM, "", "not_a_statement", ()),
        (SUM, "def add(a, b):\n    return a + b", "not_a_statement", ()),
        (SUM, "```python\nadd two numbers a and b\n```", "not_a_statement", ()),
        (SUM, "Sure! I can add two numbers a and b.", "not_a_statement", ()),
        (SUM, "Add two numbers a and b " * 12, "not_a_statement", ()),
        (FIZZ, "Give 'Buzz' where 5 divides n, 'Fizz' where 3 does, else n in a text.", "moved_number", ("5", "3")),
        (FIZZ, "Let n become Fizz when 3 goes into it, Buzz when 5 does, and else a text.", "", ()),
        (FIZZ, "Give 'Fizz' where 3 divides n, a buzz where 5 does, else n in a text.", "lost_name", ("Buzz",)),
        (SUM, "The sum of two whole numbers a and b is a number.", "not_a_statement", ()),
        (SUM, "Solve the problem of two numbers a and b.", "not_a_statement", ()),
        (SUM, "Extracting two whole numbers a and b and handing them back.", "not_a_statement", ()),
        (SUM, "Take two whole numbers a and b and divide one by the other.", "changed_operation", ("sum", "divide")),
        (LARGEST, "Which value in text is smallest?", "changed_operation", ("largest", "smallest")),
        ("Work out 3 + 4.", "What do 3 and 4 make when added?", "lost_expression", ("3+4",)),
        ("Work out 3 + 4.", "Tell me the value of 4 + 3.", "moved_number", ("4", "3")),
        ("Work out 3 + 4.", "Tell me the value of 3+4.", "", ()),
        ("Work out 3 + 4.", "Tell me that 3 + 4 is 7.", "added_number", ("7",)),
        ("Work out (3 + 4) * 5.", "Tell me the value of 3 + 4 * 5.", "lost_expression", ("(3+4)*5",)),
        (AREA, "Apply the function area to each one, width before height.", "lost_signature", ("area(width,height)",)),
        (AREA, "Hand every one of them to area( width, height ).", "", ()),
        ("Join the parts with + signs.", "Glue the pieces to each other.", "lost_expression", ("+",)),
        (VOWELS, "Count the letters a, e, i, o, u that occur in text, never mind the case.", "lost_negation", ()),
        ("Convert to Fahrenheit.", "Turn degrees into the other scale.", "lost_name", ("Fahrenheit",)),
    ],
)
def test_reasons(original: str, rewrite: str, reason: str, lost: tuple[str, ...]) -> None:
    found = judge(original, rewrite, ("a", "b", "n", "text"))
    assert found.reason == reason
    assert found.lost == lost or not lost


def test_a_lost_article_is_no_lost_name() -> None:
    # "a" is a parameter and an article: where the rewrite has it as a word, it stands.
    assert names_in(SUM, ("a", "b", "c")) == ["a", "b"]


def test_numbers_in_words_equal_digits_and_one_is_no_number() -> None:
    assert numbers("two of the 12 items, 3.5 and 1,000; one more, no onetwo") == ["2", "12", "3.5", "1,000"]


@pytest.mark.parametrize(
    ("reply", "statement"),
    [
        ("Add both.", "Add both."),
        ("  Add both.  \n\nI hope this helps!", "Add both."),
        ("Here is the rewritten task:\n\nAdd both.", "Add both."),
        ("Sure, here it is: Add both.", "Add both."),
        ("Rewritten task: Add both.", "Add both."),
        ("The task is to add both.", "add both."),
        ("In other words: Add both.", "Add both."),
        ('"Add both."', "Add both."),
        ("**Add both.**", "Add both."),
        ('"Add" both and "print".', '"Add" both and "print".'),
        ("", ""),
        ("\n\n", ""),
    ],
)
def test_the_statement_is_taken_out_of_the_reply(reply: str, statement: str) -> None:
    assert extract(reply) == statement


@given(st.text(), st.text())
def test_any_text_is_judged_and_nothing_stands_for_itself(one: str, other: str) -> None:
    assert judge(one, one).reason
    assert 0.0 <= judge(one, extract(other)).similarity <= 1.0
    statement, rest = split_prompt(one)
    assert (statement + rest).replace("\n", "") == one.strip().replace("\n", "")
