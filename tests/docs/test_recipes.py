"""The recipes that the pages of docs/ show in full are recipes."""

import re
import tomllib
from pathlib import Path

import pytest

from schemas.vocabulary import Stage
from tasks.recipe import entries, operator_of, parse_recipe

DOCS = Path(__file__).resolve().parents[2] / "docs"
WHOLE = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(
        re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
    if block.startswith("name = ")
]


def test_there_are_some() -> None:
    assert WHOLE


@pytest.mark.parametrize("text", WHOLE)
def test_it_is_valid(text: str) -> None:
    recipe = parse_recipe(tomllib.loads(text), "a page")
    built = [operator_of(recipe, stage, at) for stage in Stage for at in range(len(entries(recipe, stage)))]
    assert len(built) >= 3
