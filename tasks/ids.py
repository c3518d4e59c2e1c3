"""Ids in order, 40 bytes each: a tuple of Python's texts takes 90, and a working set may have millions of them."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Ids that are Python objects at once while all are walked through.
_AT_ONCE = 10_000


class Ids(Sequence[str]):
    """A sequence of ids that never changes; equal to any sequence of the same ids in the same order."""

    def __init__(self, ids: "Iterable[str] | pa.Array" = ()) -> None:
        self.column = ids if isinstance(ids, pa.Array) else pa.array(list(ids), pa.large_string())

    @classmethod
    def joined(cls, parts: Iterable[Sequence[str]]) -> "Ids":
        """The ids of all parts in order, each once."""
        columns = [as_ids(part).column for part in parts]
        return cls(pa.concat_arrays(columns) if columns else ())._once()

    def _once(self) -> "Ids":
        # Equal ids have equal hashes, so only those of a hash that comes twice are compared: 8 bytes an id.
        hashes = np.fromiter(map(hash, self), np.int64, len(self))
        ordered = np.sort(hashes)
        twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(twice):
            return self
        suspects = np.flatnonzero(np.isin(hashes, twice))
        known: set[str] = set()
        wanted = np.ones(len(self), bool)
        for at, key in zip(suspects, Ids(self.column.take(pa.array(suspects))), strict=True):
            wanted[at] = key not in known
            known.add(key)
        return Ids(self.column.filter(pa.array(wanted)))

    def scope_hash(self) -> str:
        """What `schemas.ids.scope_hash` gives for these ids."""
        state = blake2b(digest_size=16)
        order = pc.sort_indices(self.column)
        for start in range(0, len(self), _AT_ONCE):
            part = self.column.take(order[start : start + _AT_ONCE]).to_pylist()
            state.update("".join(f"{key}\n" for key in part).encode())
        return state.hexdigest()

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> "Ids": ...
    def __getitem__(self, at: int | slice) -> "str | Ids":
        if isinstance(at, slice):
            return Ids(self.column[at])
        return str(self.column[at].as_py())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self.column[start : start + _AT_ONCE].to_pylist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Ids({list(self[:3])}{', …' if len(self) > 3 else ''}, {len(self)})"


def as_ids(ids: Sequence[str]) -> Ids:
    """The same ids as `Ids`."""
    return ids if isinstance(ids, Ids) else Ids(ids)
