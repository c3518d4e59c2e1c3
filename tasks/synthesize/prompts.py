"""The prompt templates of this stage: jinja2 files in `templates/`, an undefined name is an error.

A template shapes what a model answers, so its hash belongs to the identity of the plug-in that uses it.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.ids import digest

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent / "templates"


@functools.cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # The output is text for a model, not HTML: escaping would change what is asked.
    return Environment(loader=FileSystemLoader(_FOLDER), undefined=StrictUndefined, autoescape=False)  # noqa: S701


def render(name: str, **values: Any) -> str:
    """The text of template `name` (file `templates/<name>.j2`) with `values`, without surrounding blank lines."""
    return _environment().get_template(f"{name}.j2").render(values).strip()


@functools.cache
def template_hash(name: str) -> str:
    """The hash of the template's source."""
    return digest((_FOLDER / f"{name}.j2").read_bytes())
