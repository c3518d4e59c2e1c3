# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""Rows of one table in the order in which they will be asked for, read once.

Shards are written in the order of ids, which are hashes: a few hundred neighbours lie in all files of the table, and
to find them reads all of it: 10,000 trajectories of 5 kB took 9 s of CPU time so, and 40,000 took 84. Here one pass
over the table deals its rows out to some hundred files on the disk, one for each range of the order; a range then fits
into memory.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

# Rows of a range, and how many ranges there are at most: each has an open file while rows are dealt out.
_RANGE, _RANGES = 1024, 256
# Rows dealt out at once.
_BATCH = 2048
_PACKED = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """The rows of `table` with these ids, in files below `folder`. For one thread at a time."""

    def __init__(self, con: duckdb.DuckDBPyConnection, table: str, ids: Sequence[str], folder: Path) -> None:
        self.folder = folder
        self._order = np.array([key.encode() for key in ids], dtype=np.bytes_)
        self._sorted = np.argsort(self._order, kind="stable")
        self._keys = self._order[self._sorted]
        self._size = max(_RANGE, -(-len(ids) // _RANGES))
        self._held: tuple[int, pa.Table, dict[str, int]] | None = None
        con.register("ids", pa.table({"id": pa.array(ids, pa.large_string())}))
        try:
            query = f"SELECT * FROM lake.main.{table} WHERE id IN (SELECT id FROM ids)"
            reader = con.execute(query).to_arrow_reader(_BATCH)
            self._schema: pa.Schema = reader.schema
            self._deal(reader)
        finally:
            con.unregister("ids")

    def rows(self, ids: Sequence[str]) -> pa.Table | None:
        """The rows with these ids, of the table's columns, in no order; None where one is not among the spool's."""
        places = self._places(ids)
        if places is None:
            return None
        found = [self._of_range(int(number), ids) for number in np.unique(places // self._size)]
        return pa.concat_tables(found)

    def _places(self, ids: Sequence[str]) -> "np.ndarray[tuple[int], np.dtype[np.int64]] | None":
        keys = np.array([key.encode() for key in ids], dtype=np.bytes_)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return self._sorted[at] if bool((self._keys[at] == keys).all()) else None

    def _deal(self, reader: pa.RecordBatchReader) -> None:
        writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        try:
            for batch in reader:
                places = self._places(batch.column("id").to_pylist())
                assert places is not None
                ranges = places // self._size
                order = np.argsort(ranges, kind="stable")
                dealt, numbers = batch.take(pa.array(order)), ranges[order]
                cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
                for start, stop in pairwise(cuts if len(numbers) else []):
                    number = int(numbers[start])
                    if number not in writers:
                        writers[number] = pa.ipc.new_stream(self._file(number), batch.schema, options=_PACKED)
                    writers[number].write_batch(dealt.slice(start, stop - start))
        finally:
            for writer in writers.values():
                writer.close()

    def _of_range(self, number: int, ids: Sequence[str]) -> pa.Table:
        if self._held is None or self._held[0] != number:
            table = self._schema.empty_table()
            # A range of which the table has no row has no file.
            if Path(self._file(number)).exists():
                with pa.ipc.open_stream(self._file(number)) as reader:
                    table = reader.read_all().combine_chunks()
            self._held = number, table, {key: at for at, key in enumerate(table.column("id").to_pylist())}
        _, table, at = self._held
        return table.take(pa.array([at[key] for key in dict.fromkeys(ids) if key in at], pa.int64()))

    def _file(self, number: int) -> str:
        return str(self.folder / f"{number}.arrows")
