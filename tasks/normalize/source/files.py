"""Which files a recipe's `paths` name, and how each is cut into records.

A path is a file, a folder (searched for data files) or a glob. The shape of a file is read from its suffix and
its first bytes: lines (JSONL), list (one JSON list), document (one JSON object), table (Parquet or Arrow).
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from schemas.errors import UserError

SUFFIXES = frozenset({".jsonl", ".ndjson", ".json", ".traj", ".parquet", ".arrow"})
# The first bytes of compressed files, and what unpacks them.
_PACKED = {b"\x1f\x8b": "gunzip -k", b"\x28\xb5\x2f\xfd": "unzstd", b"BZh": "bunzip2 -k", b"\xfd7zXZ": "unxz -k"}
_PACKED |= {b"PK\x03\x04": "unzip"}
_ARCHIVES = frozenset({".eval"})
_TABLES = frozenset({".parquet", ".arrow"})
_LINES = frozenset({".jsonl", ".ndjson"})
BOM = b"\xef\xbb\xbf"


class Shape(StrEnum):
    """How a file is cut into records."""

    LINES = "lines"
    LIST = "list"
    DOCUMENT = "document"
    TABLE = "table"


class File(NamedTuple):
    """A file to import: where it is, and the name that provenance and dead letters give it."""

    path: Path
    name: str


def expand(paths: Sequence[str], base: Path) -> list[File]:
    """The files that `paths` name, in order, each once; names are relative to `base` where they lie below it.

    Raises UserError for a path that names nothing, and for files that are no data: compressed ones, CSV.
    """
    found: dict[Path, File] = {}
    for given in paths:
        path = Path(given).expanduser()
        path = path if path.is_absolute() else base / path
        matches = sorted(_matches(path))
        if not matches:
            raise UserError(
                f"No data file at '{path}'.",
                f"A path is a file, a folder with {', '.join(sorted(SUFFIXES))} files, or a glob.",
                "Relative paths are relative to the recipe's folder.",
            )
        for match in matches:
            found.setdefault(match.resolve(), File(match, _name(match, base)))
    for file in found.values():
        refuse_packed(file.path)
    return list(found.values())


def refuse_packed(path: Path) -> None:
    """UserError for a file that must be unpacked or converted first."""
    with path.open("rb") as file:
        head = file.read(8)
    if path.suffix not in _ARCHIVES:
        for mark, tool in _PACKED.items():
            if head.startswith(mark):
                raise UserError(f"'{path}' is compressed.", todo=f"Unpack it first: {tool} {path}")
    if path.suffix in (".csv", ".tsv"):
        raise UserError(
            f"'{path}' is no data file that can be imported.",
            f"Known: {', '.join(sorted(SUFFIXES))}.",
            'Write it as Parquet or JSONL: python -c "import polars; '
            f"polars.read_csv('{path}').write_parquet('{path.with_suffix('.parquet')}')\"",
        )


def _matches(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        return [item for item in path.rglob("*") if item.suffix in SUFFIXES and item.is_file()]
    if any(mark in str(path) for mark in "*?["):
        anchor = Path(path.anchor) if path.is_absolute() else Path()
        return [item for item in anchor.glob(str(path.relative_to(anchor))) if item.is_file()]
    return []


def _name(path: Path, base: Path) -> str:
    try:
        return str(path.resolve().relative_to(base.resolve()))
    except ValueError:
        return path.name


def shape_of(path: Path) -> Shape:
    """The shape of a file, from its suffix and its beginning."""
    if path.suffix in _TABLES:
        return Shape.TABLE
    if path.suffix in _LINES:
        return Shape.LINES
    with path.open("rb") as file:
        head = file.read(1 << 20).removeprefix(BOM).lstrip()
    if head.startswith(b"["):
        return Shape.LIST
    first, newline, rest = head.partition(b"\n")
    if newline and rest.strip() and _is_json(first):
        return Shape.LINES
    return Shape.DOCUMENT


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True
