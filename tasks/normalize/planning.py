"""Which records there are: one planned item per record of a file, with where it lies and an id of its content.

The id of a record is its digest under the importer's key, in hex; only of equal records, those after the first one are
hashed again with their number.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3

from schemas.ids import digest
from tasks.normalize.seen import Seen
from tasks.normalize.source.files import File, Shape, shape_of
from tasks.normalize.source.spans import DIGEST, Span, digest_of, spans_of, stamp_of
from tasks.normalize.source.tables import rows_of
from tasks.normalize.strict import Buffer
from tasks.operator import Item

# Records looked up at once among those seen before.
SPANS = 4096


def items_of(
    files: Sequence[File], base: str, takes_whole: Callable[[Path], bool]
) -> Iterator[tuple[File, list[Item] | None]]:
    """Every record of every file, some thousands at a time, and a None after each file.

    base: what the ids are made from besides the records. takes_whole: whether a file as a whole is one record.
    """
    # Eight bytes of the digest tell records apart here: a false "seen before" would only number a record anew.
    seen, key = Seen(), key_of(base)
    for file in files:
        stamp = stamp_of(file.path)
        shape = Shape.DOCUMENT if takes_whole(file.path) else shape_of(file.path)
        ordinal = 0
        spans = rows_of(file.path, key) if shape is Shape.TABLE else spans_of(file.path, shape, key)
        for block, error in _blocks(spans):
            digests = b"".join([span.digest for span in block])
            before = seen.before(np.frombuffer(digests, np.uint64)[:: DIGEST // 8])
            yield file, _items(file, shape, block, digests.hex(), before.tolist(), stamp)
            ordinal = block[-1].ordinal if block else ordinal
            if error is not None:
                # What follows the damage cannot be told apart: one item for it.
                if shape is not Shape.TABLE:
                    raise error
                yield file, [_broken(base, file, ordinal + 1, stamp, error)]
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


def key_of(base: str) -> bytes:
    """The key under which records are hashed, of what makes their ids besides them."""
    return blake3(base.encode(), derive_key_context="gristmill 2026 records of an importer").digest()


def record_id(key: bytes, record: Buffer, occurrence: int) -> str:
    """The id of a record: of its bytes, and its number among equal ones."""
    first = digest_of(record, key).hex()
    return _numbered(first, occurrence) if occurrence else first


def _numbered(first: str, occurrence: int) -> str:
    return digest(f"{first}\n{occurrence}")


def _items(
    file: File, shape: Shape, spans: Sequence[Span], digests: str, before: Sequence[int], stamp: str
) -> list[Item]:
    """The items of a block of records; digests: in hex, one after the other. before: how often each came before."""
    path, name, size = str(file.path), file.name, 2 * DIGEST
    ids = [digests[at : at + size] for at in range(0, len(digests), size)]
    params: list[dict[str, Any]]
    if shape is Shape.TABLE:
        params = [{"file": path, "stamp": stamp, "row": span.offset} for span in spans]
    else:
        params = [{"file": path, "stamp": stamp, "offset": span.offset, "length": span.length} for span in spans]
    for at, occurrence in enumerate(before):
        if occurrence:
            ids[at] = _numbered(ids[at], occurrence)
            if shape is not Shape.TABLE:
                params[at]["n"] = occurrence
    if shape not in (Shape.LINES, Shape.TABLE):
        for one in params:
            one["shape"] = shape.value
    return [
        Item(id=own, ref=f"{name}:{span.ordinal}", params=given)
        for own, span, given in zip(ids, spans, params, strict=True)
    ]


def _broken(base: str, file: File, ordinal: int, stamp: str, error: Exception) -> Item:
    """The rest of a table that cannot be read on: one item, which becomes a dead letter."""
    why = f"{type(error).__name__}: {error}"[:500]
    params = {"file": str(file.path), "stamp": stamp, "row": ordinal - 1, "broken": why}
    key = digest(f"{base}\n{file.name}\n{stamp}\n{ordinal}\nbroken")
    return Item(id=key, ref=f"{file.name}:{ordinal}", params=params)
