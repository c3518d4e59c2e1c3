"""Signatures of trajectories, kept in the lake: each is made once, whatever the set it is compared in.

A signature's `kind` names method, version, view and parameters; the same kind of the same trajectory is never
made twice. New ones travel in the result of the operator that needed them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.ids import content_id
from schemas.trajectory import Trajectory
from tasks.curate.spread import spread
from warehouse.lake import Lake


class Signed(NamedTuple):
    """One trajectory's signature: the hash of what was looked at, and bytes in the layout of the kind."""

    text_hash: str
    values: bytes


class Signatures(NamedTuple):
    """Signatures in the order of the ids asked for; `rows` are the new ones, for the lake."""

    text_hashes: list[str]
    values: NDArray[Any]
    rows: pa.Table | None


class RawSignatures(NamedTuple):
    """The same, of kinds whose bytes have no fixed length."""

    text_hashes: list[str]
    values: list[bytes]
    rows: pa.Table | None


Make = Callable[[Sequence[Trajectory]], Sequence[Signed]]


def signatures(lake: Lake, refs: Sequence[str], kind: str, dtype: np.dtype[Any], make: Make) -> Signatures:
    """Signatures of a fixed layout `dtype`: read where the lake has them, else made with `make` (see `spread`)."""
    values = np.zeros(len(refs), dtype)

    def put(places: Sequence[int], raw: Sequence[bytes]) -> None:
        values[list(places)] = np.frombuffer(b"".join(raw), dtype)

    hashes, rows = _read_or_make(lake, refs, kind, make, put)
    return Signatures(hashes, values, rows)


def raw_signatures(lake: Lake, refs: Sequence[str], kind: str, make: Make) -> RawSignatures:
    """The same for signatures whose bytes have no fixed length."""
    values = [b""] * len(refs)

    def put(places: Sequence[int], raw: Sequence[bytes]) -> None:
        for place, one in zip(places, raw, strict=True):
            values[place] = one

    hashes, rows = _read_or_make(lake, refs, kind, make, put)
    return RawSignatures(hashes, values, rows)


def _read_or_make(
    lake: Lake, refs: Sequence[str], kind: str, make: Make, put: Callable[[Sequence[int], Sequence[bytes]], None]
) -> tuple[list[str], pa.Table | None]:
    place = {ref: number for number, ref in enumerate(refs)}
    hashes: list[str | None] = [None] * len(refs)
    known = lake.sql(
        'select item_id, text_hash, "values" from signatures where kind = ? and item_id in (select id from ids)',
        ids=refs,
        params=[kind],
    )
    for batch in known.to_batches():
        ids, found, raw = (batch.column(number).to_pylist() for number in range(3))
        places = [place[ref] for ref in ids]
        put(places, raw)
        for number, text_hash in zip(places, found, strict=True):
            hashes[number] = text_hash
    tables = []
    for chunk, signed in spread(lake, [ref for ref in refs if hashes[place[ref]] is None], make):
        put([place[ref] for ref in chunk], [one.values for one in signed])
        for ref, one in zip(chunk, signed, strict=True):
            hashes[place[ref]] = one.text_hash
        tables.append(_table(chunk, kind, signed))
    return [text_hash or "" for text_hash in hashes], pa.concat_tables(tables) if tables else None


def stacked(tables: Sequence[pa.Table | None]) -> pa.Table | None:
    """The tables that are there as one, or None."""
    some = [table for table in tables if table is not None]
    return pa.concat_tables(some) if some else None


def _table(refs: Sequence[str], kind: str, signed: Sequence[Signed]) -> pa.Table:
    return pa.table(
        {
            "id": [content_id("signature", ref, kind) for ref in refs],
            "item_id": list(refs),
            "kind": [kind] * len(refs),
            "text_hash": [one.text_hash for one in signed],
            "values": pa.array([one.values for one in signed], pa.large_binary()),
        }
    )
