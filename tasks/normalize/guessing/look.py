"""The first records of a file, whatever its shape."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from schemas.errors import RecordError, UserError
from tasks.normalize.guessing.rules import first
from tasks.normalize.source.files import BOM, Shape, shape_of
from tasks.normalize.source.spans import read_spans, spans_of
from tasks.normalize.source.tables import read_rows
from tasks.normalize.strict import decode

# How many records of a file are looked at, and of how many bytes together; a larger file is not empty.
LOOK, _BYTES, _SMALL = 40, 4 << 20, 64 << 10


def is_empty(path: Path) -> bool:
    """Whether a file holds no record at all: no byte but white space, or an empty list."""
    if path.stat().st_size > _SMALL or path.suffix in (".parquet", ".arrow"):
        return False
    return path.read_bytes().removeprefix(BOM).strip().translate(None, b" \r\n\t") in (b"", b"[]")


def records_in(path: Path, most: int = LOOK) -> list[dict[str, Any]]:
    """The first objects of a file, whatever its shape; UserError where there is none."""
    shape = shape_of(path)
    found: list[Any] = []
    if shape is Shape.TABLE:
        found = _rows(path, most)
    else:
        spans, size = [], 0
        for span in spans_of(path, shape):
            spans.append((span.offset, span.length))
            size += span.length
            if len(spans) == most or size > _BYTES:
                break
        for piece in read_spans(path, spans):
            try:
                found.append(decode(piece.raw).value)
            except RecordError:
                continue
    if not found:
        with path.open("rb") as file:
            head = file.read(200).removeprefix(BOM)
        if not head.strip():
            raise UserError(f"'{path}' is empty.")
        raise UserError(f"No record of '{path}' can be read.", f"It begins with {head[:60]!r}.")
    records: list[dict[str, Any]] = []
    for value in found:
        if isinstance(value, list):
            records.append({"messages": value} if "role" in first(value) else first(value))
        elif isinstance(value, dict):
            records.append(value)
    return records


def _rows(path: Path, most: int) -> list[Any]:
    """The first rows of a table, which may have fewer."""
    found: list[Any] = []
    with suppress(RecordError):
        found.extend(read_rows(path, range(most)))
    return found
