"""Finding code and answers in what a model wrote."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.verify.answers.extract import final_answer, is_number, python_code, stated_number


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Sure!\n```py\nx = 1\n```\nand\n```\nx = 2\n```\nDone.", "x = 2\n"),
        ("```python\nx = 1\n```\n```bash\nls\n```", "x = 1\n"),
        ("  ```python\n  x = 1\n  ```", "  x = 1\n"),
        ("~~~python\nx = 1\n~~~", "x = 1\n"),
        ("````python\n```\ninner\n```\n````", "```\ninner\n```\n"),
        ("```python\ndef f(x):\n    return x", "def f(x):\n    return x"),
        ("def f(x):\n    return x", "def f(x):\n    return x"),
        ("import os\nprint(1)", "import os\nprint(1)"),
        ("I do not know.", None),
        ("", None),
        ("```bash\nls\n```", None),
    ],
)
def test_code(text: str, code: str | None) -> None:
    assert python_code(text) == code


def test_the_block_that_defines_the_entry_wins_over_a_later_example() -> None:
    text = (
        "```python\ndef f(x):\n    return 1\n```\nbetter:\n```python\ndef f(x):\n    return 2\n```\n"
        "Use it:\n```python\nprint(f(1))\n```"
    )
    assert python_code(text, "f") == "def f(x):\n    return 2\n"
    assert python_code(text, "g") == "print(f(1))\n"
    assert python_code("```python\nf = lambda x: x\n```\n```python\nf(1)\n```", "f") == "f = lambda x: x\n"
    assert python_code("```python\nclass S:\n    pass\n```\n```python\nS()\n```", "S.run") == "class S:\n    pass\n"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("9", "9"),
        ("The answer is 9.", "9."),
        ("Let me see.\n4 + 5 = 9", "4 + 5 = 9"),
        ("<answer> 9 </answer>", "9"),
        ("<answer>8</answer> no, <answer>9</answer>", "9"),
        ("so \\boxed{\\frac{1}{2}} holds", "\\frac{1}{2}"),
        ("work\n#### 42", "42"),
        ("**Answer:** 7", "7"),
        ("Final answer: `x`", "x"),
        ("", ""),
        ("\n \n", ""),
        ("\\boxed{unclosed", "\\boxed{unclosed"),
    ],
)
def test_answer(text: str, answer: str) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4 + 5 = 9", "9"),
        ("-3", "-3"),
        ("costs 1,250.50 in all", "1250.50"),
        ("2/3", "2/3"),
        ("1e-3", "1e-3"),
        ("none", None),
        ("x = y", None),
        ("3 apples = fruit", "3"),
        ("3 plus 4 is **7**.", "7"),
        ("The result of 3 + 4 equals 7", "7"),
        # Sentences that only end in a number, lists, and sums left standing state no result.
        ("There is no remainder when 3 - 0 is divided by 3.", None),
        ("3, 4, 5", None),
        ("4 * 1", None),
        ("5 - 2 = 3 + 1", None),
    ],
)
def test_number(text: str, number: str | None) -> None:
    assert stated_number(text) == number


def test_is_number() -> None:
    assert all(map(is_number, ("7", "-1,250.5", "1e-3", "2/3", " 4 ")))
    assert not any(map(is_number, ("", "x", "7 apples", "-", "1/", "e5")))


@given(st.text())
def test_no_text_breaks_extraction(text: str) -> None:
    python_code(text, "f")
    final_answer(text)
    stated_number(text)


LONG = [
    "`" * 200_000,
    "```\n" * 50_000,
    "answer " * 50_000,
    "answer:\n" * 30_000,
    "\\boxed{" * 30_000,
    "1," * 100_000,
    " = " * 60_000,
    "<answer>" * 30_000,
    " " * 200_000,
    "\t" * 99_999 + "```",
    "answer" + " " * 99_999,
]


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_long_texts_take_linear_time(text: str) -> None:
    start = time.monotonic()
    python_code(text, "f")
    final_answer(text)
    stated_number(text)
    assert time.monotonic() - start < 5
