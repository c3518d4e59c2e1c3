"""A recipe says what is wrong with it: what was given, what is known, what to do; and never repeats a secret."""

from pathlib import Path

import pytest

from schemas.errors import UserError
from tasks.recipe import load_recipe, parse_recipe


def write(folder: Path, text: str) -> Path:
    file = folder / "recipe.toml"
    file.write_text(text, encoding="utf-8")
    return file


GOOD = """
name = "small"
seed = 3

[[synthesize]]
use = "reasoning_gym"
dataset = "chain_sum"
count = 4
"""


def test_a_good_recipe_loads_and_set_overrides_it(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, GOOD), ["seed=9", "synthesize.0.count=2", "budget.tokens=100"])
    assert (recipe.name, recipe.seed, recipe.budget.tokens) == ("small", 9, 100)
    assert recipe.synthesize[0]["count"] == 2


@pytest.mark.parametrize(
    ("text", "given", "known"),
    [
        ("name = ", "not valid TOML", ""),
        ('name = "a"\nstages = 1', "Unknown key 'stages'", "synthesize"),
        ('name = "A b"', "'A b' is not valid", "matches"),
        ('name = "a"\nseed = "x"', "Expected `int`", "Known keys"),
        ('name = "a"\nmax_failed = 2.0', "not a share", "between 0 and 1"),
        ('name = "a"\n[[synthesize]]\nuse = "nope"', "Unknown synthesizer 'nope'", "programs"),
        ('name = "a"\n[[synthesize]]\ncount = 1', "names no plug-in", "programs"),
        ('name = "a"\n[[synthesize]]\nuse = "programs"\nspeed = 1', "Unknown option 'speed'", "levels"),
        ('name = "a"\n[[synthesize]]\nuse = "programs"\nlevels = "x"', "does not fit", "levels"),
        ('name = "a"\n[[emit]]\nuse = "adp"\n[[emit]]\nuse = "adp"', "write to 'adp'", "name"),
        ('name = "a"\n[teacher]\nuse = "psychic"', "Unknown teacher 'psychic'", "local"),
    ],
)
def test_a_bad_recipe_is_refused_with_what_is_known(tmp_path: Path, text: str, given: str, known: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe(write(tmp_path, text))
    assert given in caught.value.given
    assert known in caught.value.known


def test_a_missing_file_names_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No recipe at"):
        load_recipe(tmp_path / "absent.toml")


@pytest.mark.parametrize("override", ["seed", "synthesize.7.count=1", "name.x=1", "=3"])
def test_a_bad_override_is_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe(write(tmp_path, GOOD), [override])
    assert override in caught.value.given


SECRET = "sk-marked-0123456789abcdef"  # made up for this test


@pytest.mark.parametrize(
    "raw",
    [
        {"name": "a", "teacher": {"use": "openai", "api_key": "anything"}},
        {"name": "a", "teacher": {"use": "openai", "model": SECRET}},
        {"name": "a", "teacher": {"use": "openai", "base_url": f"http://user:{SECRET}@127.0.0.1/v1"}},
        {"name": "a", "description": f"Bearer {SECRET}"},
    ],
)
def test_literal_keys_and_credentials_are_refused_and_not_repeated(raw: dict[str, object]) -> None:
    with pytest.raises(UserError) as caught:
        parse_recipe(raw)
    assert SECRET not in str(caught.value)
    assert "key_env" in caught.value.todo
