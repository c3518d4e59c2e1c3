"""Signatures of trajectories, kept in the lake: each is made once, whatever the set it is compared in.

A signature's `kind` names method, version, view and parameters; the same kind of the same trajectory is never
made twice. New ones travel in the result of the operator that needed them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.errors import LakeError
from schemas.ids import content_id
from schemas.trajectory import Trajectory
from warehouse.lake import Lake

# Trajectories decoded at a time: a few MB of text, whatever the size of the set.
CHUNK = 512


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
    """Signatures of a fixed layout `dtype`, see `raw_signatures`."""
    found = raw_signatures(lake, refs, kind, make)
    return Signatures(found.text_hashes, np.frombuffer(b"".join(found.values), dtype), found.rows)


def raw_signatures(lake: Lake, refs: Sequence[str], kind: str, make: Make) -> RawSignatures:
    """Reads the signatures of `kind` and makes the missing ones with `make`, a chunk of trajectories at a time."""
    known = lake.sql(
        'select item_id, text_hash, "values" from signatures where kind = ? and item_id in (select id from ids)',
        ids=refs,
        params=[kind],
    )
    found: dict[str, Signed] = {}
    for batch in known.to_batches():
        for ref, text_hash, raw in zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True):
            found[ref] = Signed(text_hash, raw)
    tables = []
    for chunk, trajectories in in_chunks(lake, [ref for ref in refs if ref not in found]):
        signed = make(trajectories)
        found.update(zip(chunk, signed, strict=True))
        tables.append(_table(chunk, kind, signed))
    ordered = [found[ref] for ref in refs]
    rows = pa.concat_tables(tables) if tables else None
    return RawSignatures([one.text_hash for one in ordered], [one.values for one in ordered], rows)


def in_chunks(lake: Lake, refs: Sequence[str]) -> Iterator[tuple[Sequence[str], list[Trajectory]]]:
    """The trajectories with their ids, a chunk at a time; one that is missing from the lake is a LakeError."""
    for start in range(0, len(refs), CHUNK):
        chunk = refs[start : start + CHUNK]
        trajectories = lake.trajectories(chunk)
        if len(trajectories) != len(chunk):
            raise LakeError(f"the lake holds {len(trajectories)} of {len(chunk)} trajectories asked for")
        yield chunk, trajectories


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
