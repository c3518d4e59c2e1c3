"""Prompt templates: jinja2 files beside the stage or plug-in that uses them; an undefined name is an error.

A file is one text, or several messages, each after a line `--- ROLE` (system, user or assistant). A template shapes
what a model answers, so its hash belongs to the identity of the plug-in that renders it.
"""

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.ids import digest

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_ROLE = re.compile(r"^--- (system|user|assistant)\n", re.MULTILINE)


def render(path: Path, **values: Any) -> str:
    """The text of the template file at `path` with `values`, without surrounding blank lines."""
    return _template(path).render(values).strip()


def messages(path: Path, **values: Any) -> tuple[dict[str, str], ...]:
    """The messages of the template file at `path`; values cannot add one, whatever they hold."""
    return tuple({"role": role, "content": part.render(values).strip()} for role, part in _parts(path))


@functools.cache
def template_hash(path: Path) -> str:
    """The hash of the template's source."""
    return digest(path.read_bytes())


def _environment(folder: Path) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # The output is text for a model, not HTML: escaping would change what is asked.
    return Environment(loader=FileSystemLoader(folder), undefined=StrictUndefined, autoescape=False)  # noqa: S701


@functools.cache
def _template(path: Path) -> "Template":
    return _environment(path.parent).get_template(path.name)


@functools.cache
def _parts(path: Path) -> "tuple[tuple[str, Template], ...]":
    _, *pieces = _ROLE.split(path.read_text(encoding="utf-8"))
    environment = _environment(path.parent)
    return tuple((role, environment.from_string(text)) for role, text in zip(pieces[::2], pieces[1::2], strict=True))
