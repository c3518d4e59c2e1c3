"""Prompt templates: jinja2 files beside the stage or plug-in that uses them; an undefined name is an error.

A template shapes what a model answers, so its hash belongs to the identity of the plug-in that renders it.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.ids import digest

if TYPE_CHECKING:
    from jinja2 import Template


def render(path: Path, **values: Any) -> str:
    """The text of the template file at `path` with `values`, without surrounding blank lines."""
    return _template(path).render(values).strip()


@functools.cache
def template_hash(path: Path) -> str:
    """The hash of the template's source."""
    return digest(path.read_bytes())


@functools.cache
def _template(path: Path) -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # The output is text for a model, not HTML: escaping would change what is asked.
    environment = Environment(loader=FileSystemLoader(path.parent), undefined=StrictUndefined, autoescape=False)  # noqa: S701
    return environment.get_template(path.name)
