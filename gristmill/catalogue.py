"""Every plug-in with what it does and its options, read from the classes themselves."""

import inspect
import sys
from typing import Any

import msgspec

from schemas.errors import UserError
from schemas.vocabulary import Kind
from tasks.registry import STAGE_OF, plugin_class, plugin_ids


def catalogue(stage: str = "") -> list[dict[str, Any]]:
    """The plug-ins of one stage, or of all, in the order of the way of the data."""
    found = []
    for kind in Kind:
        if stage and STAGE_OF[kind].value != stage:
            continue
        for use in plugin_ids(kind):
            try:
                cls = plugin_class(kind, use)
            except UserError as error:
                found.append(_broken(kind, use, error.given))
                continue
            module = (inspect.getdoc(sys.modules[cls.__module__]) or "").strip()
            found.append(
                {
                    "id": use,
                    "stage": STAGE_OF[kind].value,
                    "kind": kind.value,
                    # The file's docstring says what it is, the class's what its options mean.
                    "what": module.split("\n", 1)[0],
                    "doc": f"{module}\n\n{inspect.getdoc(cls) or ''}".strip(),
                    "options": {field.encode_name: _default(field) for field in msgspec.structs.fields(cls)},
                }
            )
    return found


def _broken(kind: Kind, use: str, why: str) -> dict[str, Any]:
    """A plug-in of an outside package that cannot be loaded: the others are listed all the same."""
    return {"id": use, "stage": STAGE_OF[kind].value, "kind": kind.value, "what": why, "doc": why, "options": {}}


def rewrapped(doc: str) -> str:
    """The docstring with its paragraphs on one line each, for a terminal of any width; examples stay as they are."""
    parts = doc.split("\n\n")
    return "\n\n".join(p if any(line[:1] == " " for line in p.split("\n")) else p.replace("\n", " ") for p in parts)


def _default(field: Any) -> str:
    if field.default is not msgspec.NODEFAULT:
        return repr(field.default)
    if field.default_factory is not msgspec.NODEFAULT:
        return repr(field.default_factory())
    return "(required)"
