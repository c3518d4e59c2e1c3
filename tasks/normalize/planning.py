"""Which records there are: one planned item per record of a file, with where it lies and an id of its content."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from schemas.ids import digest
from tasks.normalize.seen import Seen
from tasks.normalize.source.files import File, Shape, shape_of
from tasks.normalize.source.spans import Span, spans_of, stamp_of
from tasks.normalize.source.tables import rows_of
from tasks.operator import Item

# Records looked up at once among those seen before.
SPANS = 4096


def items_of(
    files: Sequence[File], base: str, takes_whole: Callable[[Path], bool]
) -> Iterator[tuple[File, Item | None]]:
    """Every record of every file, and a None after each file.

    base: what the ids are made from besides the records. takes_whole: whether a file as a whole is one record.
    """
    # Eight bytes of the digest tell records apart here: a false "seen before" would only number a record anew.
    seen = Seen()
    for file in files:
        stamp = stamp_of(file.path)
        shape = Shape.DOCUMENT if takes_whole(file.path) else shape_of(file.path)
        ordinal = 0
        for block, error in _blocks(rows_of(file.path) if shape is Shape.TABLE else spans_of(file.path, shape)):
            keys = np.frombuffer(b"".join(span.digest[:8] for span in block), np.uint64)
            for span, occurrence in zip(block, seen.before(keys).tolist(), strict=True):
                yield file, _item(base, file, shape, span, occurrence, stamp)
                ordinal = span.ordinal
            if error is not None:
                # What follows the damage cannot be told apart: one item for it.
                if shape is not Shape.TABLE:
                    raise error
                yield file, _broken(base, file, ordinal + 1, stamp, error)
        yield file, None


def _blocks(spans: Iterator[Span]) -> Iterator[tuple[list[Span], Exception | None]]:
    """The records of a file, SPANS at a time, and the error that ended them."""
    while True:
        block: list[Span] = []
        try:
            block.extend(islice(spans, SPANS))
        except (ValueError, OverflowError, OSError) as error:
            # Arrow's own errors are ValueErrors.
            yield block, error
            return
        yield block, None
        if len(block) < SPANS:
            return


@lru_cache(maxsize=8)
def _prefix(base: str) -> bytes:
    return f"item\n{base}\n".encode()


def record_id(base: str, record: bytes, occurrence: int) -> str:
    """The id of an item: of `base`, the digest of its record, and its number among equal records."""
    # `schemas.ids.digest`, without its way through text: this is done for every record of every file.
    data = _prefix(base) + record if not occurrence else _prefix(base) + record + b"\n%d" % occurrence
    return blake2b(data, digest_size=16).hexdigest()


def _item(base: str, file: File, shape: Shape, span: Span, occurrence: int, stamp: str) -> Item:
    params: dict[str, Any] = {"file": str(file.path), "stamp": stamp}
    if shape is Shape.TABLE:
        params["row"] = span.offset
    else:
        params["offset"], params["length"] = span.offset, span.length
        if occurrence:
            params["n"] = occurrence
        if shape is not Shape.LINES:
            params["shape"] = shape.value
    return Item(id=record_id(base, span.digest, occurrence), ref=f"{file.name}:{span.ordinal}", params=params)


def _broken(base: str, file: File, ordinal: int, stamp: str, error: Exception) -> Item:
    """The rest of a table that cannot be read on: one item, which becomes a dead letter."""
    why = f"{type(error).__name__}: {error}"[:500]
    params = {"file": str(file.path), "stamp": stamp, "row": ordinal - 1, "broken": why}
    key = digest(f"{base}\n{file.name}\n{stamp}\n{ordinal}\nbroken")
    return Item(id=key, ref=f"{file.name}:{ordinal}", params=params)
