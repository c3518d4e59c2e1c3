"""Which formats the files of an import have: a few bytes of at most LOOKED_AT of them, spread evenly, are looked at."""

from collections.abc import Sequence
from pathlib import Path

from schemas.errors import UserError
from tasks.normalize.guessing.guess import format_of
from tasks.normalize.guessing.look import is_empty

LOOKED_AT = 200


def refuse_mixed(files: Sequence[Path]) -> list[Path]:
    """UserError, with a command for each, where files have several formats; else those that fit none."""
    step = max(1, -(-len(files) // LOOKED_AT))
    found: dict[str | None, list[Path]] = {}
    for path in files[::step]:
        if not is_empty(path):
            found.setdefault(format_of(path), []).append(path)
    unknown = found.pop(None, [])
    if len(found) < 2:
        return unknown
    # Without the format: what else there is to guess would not be guessed with it.
    lines = [f"  gristmill import {_named(paths)} --dataset NAME   # {fmt}" for fmt, paths in found.items()]
    raise UserError(
        f"The files have {len(found)} formats: {', '.join(f'{fmt} ({len(of)})' for fmt, of in found.items())}.",
        "One import reads one format.",
        "\n".join(["Import each by itself, under a name of its own:", *lines]),
    )


def _named(paths: Sequence[Path]) -> str:
    shown = " ".join(f"'{path}'" for path in paths[:5])
    return shown if len(paths) <= 5 else f"{shown} … (and {len(paths) - 5} more)"
