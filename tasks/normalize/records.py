"""From planned items back to their records: read where they lie, and only if they are still what was planned."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from schemas.errors import RecordError
from tasks.normalize.planning import key_of, record_id
from tasks.normalize.source.files import Shape
from tasks.normalize.source.spans import read_spans, stamp_of
from tasks.normalize.source.tables import read_rows
from tasks.normalize.strict import Record, decode
from tasks.operator import Item, Pending

MAX_RECORD = 256 << 20

Found = Record | RecordError | Pending


class Whole(Protocol):
    """What an importer says of files that are one record each."""

    def takes_whole(self, path: Path) -> bool:
        """See Importer.takes_whole."""

    def decode_whole(self, raw: bytes) -> Record:
        """See Importer.decode_whole."""


def records_of(
    items: Sequence[Item], base: str, path_of: Callable[[str], Path], whole: Whole
) -> Iterator[tuple[Item, Found]]:
    """The record of each item, or why there is none: an error, or a file that is no longer as planned."""
    first = 0
    while first < len(items):
        last = first + 1
        while last < len(items) and items[last].params["file"] == items[first].params["file"]:
            last += 1
        group = items[first:last]
        path = path_of(group[0].params["file"])
        if not path.is_file():
            yield from ((item, Pending(item_id=item.id, reason="file_gone")) for item in group)
        elif "row" in group[0].params:
            yield from _rows(path, group)
        else:
            yield from _texts(path, group, base, whole)
        first = last


def _texts(path: Path, group: Sequence[Item], base: str, whole: Whole) -> Iterator[tuple[Item, Found]]:
    trusted, key = stamp_of(path) == group[0].params["stamp"], key_of(base)
    short = [item for item in group if item.params["length"] <= MAX_RECORD]
    pieces = read_spans(path, [(item.params["offset"], item.params["length"]) for item in short])
    for item in group:
        if item.params["length"] > MAX_RECORD:
            yield item, RecordError("too_long", f"{item.params['length']} bytes, the limit is {MAX_RECORD}")
            continue
        piece = next(pieces)
        if not trusted and item.id != record_id(key, piece.raw, item.params.get("n", 0)):
            yield item, Pending(item_id=item.id, reason="file_changed")
            continue
        try:
            as_one = item.params.get("shape") == Shape.DOCUMENT and whole.takes_whole(path)
            yield item, whole.decode_whole(bytes(piece.raw)) if as_one else decode(piece.raw, piece.marks)
        except RecordError as error:
            yield item, error


def _rows(path: Path, group: Sequence[Item]) -> Iterator[tuple[Item, Found]]:
    if stamp_of(path) != group[0].params["stamp"]:
        yield from ((item, Pending(item_id=item.id, reason="file_changed")) for item in group)
        return
    for item in group:
        if "broken" in item.params:
            yield item, RecordError("unreadable_table", f"this row and all after it: {item.params['broken']}")
    ordered = sorted((item for item in group if "broken" not in item.params), key=lambda item: item.params["row"])
    rows = read_rows(path, [item.params["row"] for item in ordered])
    for item in ordered:
        yield item, Record(next(rows))


def as_planned(items: Sequence[Item], path_of: Callable[[str], Path]) -> set[str]:
    """The files of a batch that are still the ones that were planned."""
    files = {item.params["file"]: item.params["stamp"] for item in items}
    return {file for file, stamp in files.items() if (path := path_of(file)).is_file() and stamp_of(path) == stamp}
