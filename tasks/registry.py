"""Finds plug-ins: built-in ones by their place in the tree, outside ones by entry point.

A plug-in's id is its file's name; it lives at tasks/<stage>/<kind>/<id>.py and is one class. Nothing is
imported before it is asked for. Outside packages register under the group `gristmill.<kind>`.
"""

import importlib
import pkgutil
import re
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from schemas.errors import UserError, meant
from schemas.vocabulary import Kind, Stage
from tasks.bounds import out_of_bounds
from tasks.plugin import Plugin

ID_PATTERN = re.compile(r"[a-z][a-z0-9_]*")

STAGE_OF: dict[Kind, Stage] = {
    Kind.SYNTHESIZER: Stage.SYNTHESIZE,
    Kind.TEACHER: Stage.ROLLOUT,
    Kind.ENVIRONMENT: Stage.ROLLOUT,
    Kind.HARNESS: Stage.ROLLOUT,
    Kind.IMPORTER: Stage.NORMALIZE,
    Kind.VERIFIER: Stage.VERIFY,
    Kind.REFINER: Stage.REFINE,
    Kind.LABELER: Stage.LABEL,
    Kind.SELECTOR: Stage.CURATE,
    Kind.PAIRER: Stage.PAIR,
    Kind.EXPORTER: Stage.EMIT,
    Kind.TRAINER: Stage.TRAIN,
}

# The kind that a stage's recipe entries name.
ENTRY_KIND: dict[Stage, Kind] = {
    Stage.SYNTHESIZE: Kind.SYNTHESIZER,
    Stage.ROLLOUT: Kind.HARNESS,
    Stage.NORMALIZE: Kind.IMPORTER,
    Stage.VERIFY: Kind.VERIFIER,
    Stage.REFINE: Kind.REFINER,
    Stage.LABEL: Kind.LABELER,
    Stage.CURATE: Kind.SELECTOR,
    Stage.PAIR: Kind.PAIRER,
    Stage.EMIT: Kind.EXPORTER,
    Stage.TRAIN: Kind.TRAINER,
}

# Option fields whose values name further plug-ins.
NESTED: dict[str, Kind] = {
    "teacher": Kind.TEACHER,
    "teachers": Kind.TEACHER,
    "environment": Kind.ENVIRONMENT,
}


def _package(kind: Kind) -> str:
    return f"tasks.{STAGE_OF[kind].value}.{kind.value}"


def _builtin(kind: Kind) -> list[str]:
    try:
        package = importlib.import_module(_package(kind))
    except ModuleNotFoundError as error:
        if error.name != _package(kind):
            raise
        return []
    return sorted(found.name for found in pkgutil.iter_modules(package.__path__) if not found.name.startswith("_"))


def _outside(kind: Kind) -> dict[str, EntryPoint]:
    builtin = frozenset(_builtin(kind))
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"gristmill.{kind.value}"):
        if not ID_PATTERN.fullmatch(point.name):
            raise UserError(
                f"The plug-in '{point.name}' ({point.value}) has no valid id.", f"An id matches {ID_PATTERN.pattern}."
            )
        if point.name in builtin or point.name in found:
            raise UserError(
                f"The plug-in '{point.name}' ({point.value}) takes the id of a known {kind.value}.",
                "Ids are unique per kind.",
                "Rename the outside plug-in's entry point.",
            )
        found[point.name] = point
    return found


def outside_ids(kind: Kind) -> list[str]:
    """The ids that outside packages give to plug-ins of `kind`, sorted."""
    return sorted(_outside(kind))


def plugin_ids(kind: Kind) -> list[str]:
    """Every known id of `kind`, built in and outside, sorted."""
    return sorted([*_builtin(kind), *_outside(kind)])


def plugin_class(kind: Kind, use: str) -> type[Plugin]:
    """The class behind an id; an unknown id is a UserError that lists the known ones."""
    if use in _builtin(kind):
        module = importlib.import_module(f"{_package(kind)}.{use}")
        classes = [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Plugin)
            and value.__module__ == module.__name__
            and getattr(value, "kind", None) is kind
        ]
        if len(classes) != 1:
            raise TypeError(f"{module.__name__} must define exactly one {kind.value}, found {len(classes)}")
        return classes[0]
    outside = _outside(kind)
    if use in outside:
        try:
            loaded = outside[use].load()
        except Exception as error:
            raise UserError(
                f"The plug-in '{use}' ({outside[use].value}) of an outside package cannot be loaded: "
                f"{type(error).__name__}: {error}",
                todo="Mend or uninstall that package.",
            ) from error
        if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
            raise UserError(f"The entry point '{use}' ({outside[use].value}) is not a Plugin class.")
        return loaded
    raise UserError(
        f"Unknown {kind.value} '{use}'.",
        f"Known: {', '.join(plugin_ids(kind)) or 'none'}.",
        meant(use, plugin_ids(kind)) or f"List them with: gristmill plugins {STAGE_OF[kind].value}",
    )


def build(kind: Kind, entry: dict[str, Any], where: str = "") -> Plugin:
    """The plug-in that a recipe entry describes; `where` names the entry in error messages."""
    place = f" in {where}" if where else ""
    if not isinstance(entry, dict) or not isinstance(entry.get("use"), str):
        raise UserError(
            f"The entry{place} names no plug-in: {entry!r}",
            f"Known {kind.value}s: {', '.join(plugin_ids(kind))}.",
            'Write use = "ID".',
        )
    cls = plugin_class(kind, entry["use"])
    options = {key: value for key, value in entry.items() if key != "use"}
    for name, nested in NESTED.items():
        for child in options[name] if isinstance(options.get(name), list) else filter(None, [options.get(name)]):
            build(nested, child, f"{where}.{name}" if where else name)
    known = [field.encode_name for field in msgspec.structs.fields(cls)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UserError(
            f"Unknown option{'s' if len(unknown) > 1 else ''} {', '.join(map(repr, unknown))} of "
            f"{kind.value} '{entry['use']}'{place}.",
            f"Known options: {', '.join(known) or 'none'}.",
            meant(unknown[0], known),
        )
    try:
        plugin = msgspec.convert(options, cls)
    except (msgspec.ValidationError, ValueError) as error:
        raise UserError(
            f"An option of {kind.value} '{entry['use']}'{place} does not fit: {error}",
            f"Known options: {', '.join(known) or 'none'}.",
        ) from error
    wrong = out_of_bounds(plugin)
    if wrong:
        raise UserError(f"An option of {kind.value} '{entry['use']}'{place} does not fit: {wrong}.")
    return plugin
