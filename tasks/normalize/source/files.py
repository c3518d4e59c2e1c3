"""Which files a recipe's `paths` name, and how each is cut into records.

A path is a file, a folder (searched for data files) or a glob. The shape of a file is read from its suffix and
its first bytes: lines (JSONL), list (one JSON list), document (one JSON object), table (Parquet or Arrow).
"""

import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from schemas.errors import UserError
from warehouse.locks import LOCK

SUFFIXES = frozenset({".jsonl", ".ndjson", ".json", ".traj", ".parquet", ".arrow"})
# The first bytes of compressed files, and what unpacks them.
_PACKED = {b"\x1f\x8b": "gunzip -k", b"\x28\xb5\x2f\xfd": "unzstd", b"BZh": "bunzip2 -k", b"\xfd7zXZ": "unxz -k"}
_PACKED |= {b"PK\x03\x04": "unzip"}
# Files of a folder that say something about others: of exports, and of data sets of Hugging Face's.
_MANIFEST, _HEAD = "manifest.json", 1 << 20
_ABOUT = frozenset({_MANIFEST, "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
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


def expand(paths: Sequence[str], base: Path, base_is: str = "the recipe's folder") -> list[File]:
    """The files that `paths` name, in order, each once; names are relative to `base` where they lie below it.

    base_is: what `base` is to the reader of an error. Raises UserError for a path that names nothing, and for files
    that are no data: compressed ones, CSV.
    """
    found: dict[Path, File] = {}
    for given in paths:
        path = Path(given).expanduser()
        path = path if path.is_absolute() else base / path
        if (path / LOCK).is_file():
            raise UserError(f"'{given}' is a lake: what is in it need not be imported.", todo="Use it with --lake.")
        matches = sorted(_matches(path))
        if not matches:
            where = "" if Path(given).expanduser().is_absolute() else f" in {base_is}, {base.resolve()}"
            raise UserError(
                f"No data file at '{given}'{where}.",
                f"A path is a file, a folder with {', '.join(sorted(SUFFIXES))} files, or a glob.",
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
        return contents_of(path).data
    if any(mark in str(path) for mark in "*?["):
        anchor = Path(path.anchor) if path.is_absolute() else Path()
        return [item for item in anchor.glob(str(path.relative_to(anchor))) if item.is_file()]
    return []


class Contents(NamedTuple):
    """What a folder holds to import, and what stands beside it: files that are no data, exports, lakes."""

    data: list[Path]
    beside: list[Path]


def contents_of(folder: Path) -> Contents:
    """Sorts what lies below a folder. An export, a lake or a link to a folder is one thing, and stands beside.

    OSError for a folder that cannot be listed: what is in it would be missing without a word.
    """
    data: list[Path] = []
    beside: list[Path] = []
    for where, folders, files in os.walk(folder, onerror=_raise):
        apart = {name for name in folders if (path := Path(where, name)).is_symlink() or _is_ours(path)}
        beside += [Path(where, name) for name in apart]
        folders[:] = [name for name in folders if name not in apart]
        for path in (Path(where, name) for name in files):
            if path.is_file():
                (data if path.suffix in SUFFIXES and path.name not in _ABOUT else beside).append(path)
    return Contents(sorted(data), sorted(beside))


def _raise(error: OSError) -> None:
    raise error


def _is_ours(folder: Path) -> bool:
    """Whether a folder is a lake, or holds shards that Gristmill wrote: their manifest says so at its beginning."""
    if (folder / LOCK).is_file():
        return True
    manifest = folder / _MANIFEST
    if not manifest.is_file():
        return False
    with manifest.open("rb") as file:
        return b'"gristmill"' in file.read(_HEAD)


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
