"""Reads a recipe, applies `--set a.b=c`, and builds every operator that it names.

A recipe is TOML; unknown keys, unknown plug-ins, literal keys and credentials in URLs are refused with what
was given, what is known and what to do.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import UserError, meant
from schemas.recipe import Recipe
from schemas.vocabulary import Kind, Stage
from tasks.client.redact import refuse_secrets
from tasks.operator import Operator
from tasks.registry import ENTRY_KIND, build

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_-]*")


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in the file at `path` with `overrides` ("a.b=c") applied; UserError when it is not one."""
    file = Path(path)
    if not file.is_file():
        folders = (file, Path(), Path("recipes"))
        nearby = sorted({str(found) for folder in folders for found in folder.glob("*.toml")} - {"pyproject.toml"})
        raise UserError(
            f"No recipe at '{path}'.",
            f"Recipes here: {', '.join(nearby[:20]) or 'none'}.",
            "Give the path of a TOML file.",
        )
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"The recipe '{path}' is not valid TOML: {error}", todo="Mend the line named above.") from error
    for override in overrides:
        _apply(raw, override)
    return parse_recipe(raw, str(path))


def parse_recipe(raw: dict[str, Any], where: str = "recipe") -> Recipe:
    """A Recipe from plain data, every entry checked against its plug-in."""
    refuse_secrets(raw, where)
    known = [field.encode_name for field in msgspec.structs.fields(Recipe)]
    unknown = sorted(set(raw) - set(known))
    if unknown:
        raise UserError(
            f"Unknown key{'s' if len(unknown) > 1 else ''} {', '.join(map(repr, unknown))} in {where}.",
            f"Known keys: {', '.join(known)}.",
            meant(unknown[0], known),
        )
    single = sorted(stage for stage in Stage if isinstance(raw.get(stage.value), dict))
    if single:
        raise UserError(f"[{single[0]}] in {where} is one table.", todo=f"Write [[{single[0]}]]: a list of entries.")
    try:
        recipe = msgspec.convert(raw, Recipe)
    except msgspec.ValidationError as error:
        raise UserError(f"{where} does not fit: {error}", f"Known keys: {', '.join(known)}.") from error
    if not NAME_PATTERN.fullmatch(recipe.name):
        raise UserError(f"The recipe name '{recipe.name}' is not valid.", f"A name matches {NAME_PATTERN.pattern}.")
    if not 0 <= recipe.max_failed <= 1:
        raise UserError(f"max_failed = {recipe.max_failed} is not a share.", "It lies between 0 and 1.")
    if recipe.teacher is not None:
        build(Kind.TEACHER, recipe.teacher, f"{where}: teacher")
    for stage in Stage:
        for index in range(len(entries(recipe, stage))):
            operator_of(recipe, stage, index)
    for stage in (Stage.EMIT, Stage.TRAIN):
        _refuse_same_names(recipe, stage, where)
    if recipe.emit:
        _refuse_unknown_shards(recipe, where)
    return recipe


def _refuse_unknown_shards(recipe: Recipe, where: str) -> None:
    """A trainer of a recipe that emits trains on one of its own shard folders, or on one named by its path."""
    labels = sorted(str(entry.get("name") or entry["use"]) for entry in recipe.emit)
    for entry in recipe.train:
        shards = str(entry.get("shards", ""))
        if shards not in labels and "/" not in shards:
            raise UserError(
                f"The trainer '{entry['use']}' of {where} wants the shards '{shards}', which no [[emit]] entry writes.",
                f"Known: {', '.join(labels)}.",
                meant(shards, labels) or 'Write shards = "LABEL".',
            )


def refuse_early(recipe: Recipe, folder: Path) -> None:
    """Raises UserError for what a quick look at files and names tells to be wrong; `folder` is the recipe's."""
    for stage in Stage:
        for index in range(len(entries(recipe, stage))):
            operator_of(recipe, stage, index).refuse_early(folder)


def _refuse_same_names(recipe: Recipe, stage: Stage, where: str) -> None:
    """Two exporters, or two trainers, must not write to one folder."""
    names = [str(entry.get("name") or entry["use"]) for entry in entries(recipe, stage)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(
            f"Two [[{stage.value}]] entries of {where} write to '{twice[0]}'.",
            "An entry's folder is its name, or its plug-in's id.",
            'Give one of them another name = "...".',
        )


def entries(recipe: Recipe, stage: Stage) -> tuple[dict[str, Any], ...]:
    """The recipe's entries of one stage, in order."""
    found: tuple[dict[str, Any], ...] = getattr(recipe, stage.value)
    return found


def operator_of(recipe: Recipe, stage: Stage, index: int) -> Operator:
    """The operator of one entry."""
    plugin = build(ENTRY_KIND[stage], entries(recipe, stage)[index], f"[[{stage.value}]] number {index + 1}")
    if not isinstance(plugin, Operator):
        raise UserError(f"'{plugin.plugin_id()}' is not an operator of stage {stage.value}.")
    return plugin


def _apply(raw: dict[str, Any], override: str) -> None:
    """Sets one dotted key; a number in the path indexes an array, and the value is TOML, or else a plain string."""
    key, sign, text = override.partition("=")
    if not sign or not key.strip():
        raise UserError(
            f"--set '{override}' is not KEY=VALUE.", todo="Write for example --set seed=7 or --set rollout.0.samples=4"
        )
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = {"value": text}
    if len(parsed) > 1:
        raise UserError(f"--set '{override}' sets more than one key.", todo="Give each its own --set.")
    value = parsed["value"]
    *path, last = key.strip().split(".")
    target: Any = raw
    for depth, part in enumerate(path):
        where = ".".join(path[: depth + 1])
        if isinstance(target, list):
            target = target[_index(target, part, override)]
        elif isinstance(target, dict):
            target = target.setdefault(part, {})
        else:
            raise UserError(f"--set '{override}': '{where}' is not a table or an array.")
    if isinstance(target, list):
        target[_index(target, last, override)] = value
    elif isinstance(target, dict):
        target[last] = value
    else:
        raise UserError(f"--set '{override}': '{'.'.join(path)}' is not a table or an array.")


def _index(target: list[Any], part: str, override: str) -> int:
    if not (part.isascii() and part.isdigit()) or int(part) >= len(target):
        raise UserError(
            f"--set '{override}': '{part}' is not an index of that array.",
            f"It has {len(target)} entries, counted from 0.",
        )
    return int(part)
