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


def signatures(
    lake: Lake,
    refs: Sequence[str],
    kind: str,
    dtype: np.dtype[Any],
    make: Callable[[Sequence[Trajectory]], Sequence[Signed]],
) -> Signatures:
    """Reads the signatures of `kind` and makes the missing ones with `make`, a chunk of trajectories at a time.

    dtype: the layout of one signature's bytes.
    """
    place = {ref: number for number, ref in enumerate(refs)}
    hashes = [""] * len(refs)
    values = np.zeros(len(refs), dtype)
    found = np.zeros(len(refs), np.bool_)
    known = lake.sql(
        'select item_id, text_hash, "values" from signatures where kind = ? and item_id in (select id from ids)',
        ids=refs,
        params=[kind],
    )
    for batch in known.to_batches():
        for ref, text_hash, raw in zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True):
            number = place[ref]
            hashes[number], found[number] = text_hash, True
            values[number] = np.frombuffer(raw, dtype)[0]
    missing = [ref for ref in refs if not found[place[ref]]]
    tables = []
    for chunk, trajectories in in_chunks(lake, missing):
        signed = make(trajectories)
        for ref, one in zip(chunk, signed, strict=True):
            hashes[place[ref]] = one.text_hash
            values[place[ref]] = np.frombuffer(one.values, dtype)[0]
        tables.append(_table(chunk, kind, signed))
    return Signatures(hashes, values, pa.concat_tables(tables) if tables else None)


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
