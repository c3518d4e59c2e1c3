# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""Rows of one table in the order in which their keys will be asked for, read once.

Shards are written in the order of ids, which are hashes: a few hundred neighbours lie in all files of the table, and
to find them reads all of it: 10,000 trajectories of 5 kB took 9 s of CPU time so, and 40,000 took 84. Here one pass
over the table deals its rows out to some hundred files on the disk, one for each range of the order; a range then fits
into memory.
"""

import errno
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from schemas.errors import Unavailable
from warehouse.failures import translated

# From how many keys on a pass over the table is worth more than finding them a few hundred at a time.
LEAST = 2048
# Rows of a range, or bytes of them where they are long: a range is held in memory, and each further one makes dealing
# slower. How many ranges there are at most: each has an open file while rows are dealt out.
_RANGE, _RANGE_BYTES, _RANGES = 1024, 32 << 20, 256
# Rows, or bytes of them, dealt out at once, and how many rows are taken from DuckDB at a time.
_BATCH, _BATCH_BYTES, _STEP = 2048, 32 << 20, 128
_PACKED = pa.ipc.IpcWriteOptions(compression="lz4")


Keys = np.ndarray[tuple[int], np.dtype[np.bytes_]]


class Spool:
    """The rows of `table` whose `column` is one of these keys, each given once, in files below `folder`.

    For one thread at a time.
    """

    def __init__(self, table: str, column: str, keys: Sequence[str], folder: Path) -> None:
        self.table, self.column, self.keys, self.folder = table, column, keys, folder
        order = _bytes(keys)
        self._sorted = np.argsort(order, kind="stable")
        self._ordered = order[self._sorted]
        # Rows of a range, known when the first ones are.
        self._size = 0
        self._schema: pa.Schema | None = None
        self._held: tuple[int, pa.Table, Keys] | None = None

    @property
    def filled(self) -> bool:
        """Whether the table was read."""
        return self._schema is not None

    def fill(self, con: duckdb.DuckDBPyConnection) -> None:
        """Reads the table."""
        self.folder.mkdir(parents=True, exist_ok=True)
        con.register("ids", pa.table({"id": pa.array(self.keys, pa.large_string())}))
        try:
            query = f'SELECT * FROM lake.main.{self.table} WHERE "{self.column}" IN (SELECT id FROM ids)'
            reader = con.execute(query).to_arrow_reader(_STEP)
            self._deal(reader)
            self._schema = reader.schema
        finally:
            con.unregister("ids")

    def holds(self, keys: Sequence[str]) -> bool:
        """Whether all of these are among the spool's keys."""
        return self._places(_bytes(keys)) is not None

    def rows(self, keys: Sequence[str]) -> pa.Table:
        """The rows with these keys, which it `holds`, of the table's columns, in no order."""
        wanted = _bytes(keys)
        places = self._places(wanted)
        assert places is not None and self._schema is not None
        if not self._size:
            return self._schema.empty_table()
        found = [self._of_range(int(number), wanted) for number in np.unique(places // self._size)]
        return pa.concat_tables([self._schema.empty_table(), *found])

    def _places(self, keys: Keys) -> "np.ndarray[tuple[int], np.dtype[np.int64]] | None":
        at = np.minimum(np.searchsorted(self._ordered, keys), len(self._ordered) - 1)
        return self._sorted[at] if bool((self._ordered[at] == keys).all()) else None

    def _deal(self, reader: pa.RecordBatchReader) -> None:
        writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        try:
            for rows in _gathered(reader):
                self._size = self._size or self._fitting(rows)
                places = self._places(_bytes(rows.column(self.column).to_pylist()))
                assert places is not None
                ranges = places // self._size
                order = np.argsort(ranges, kind="stable")
                dealt, numbers = rows.take(pa.array(order)), ranges[order]
                cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
                for start, stop in pairwise(cuts if len(numbers) else []):
                    number = int(numbers[start])
                    if number not in writers:
                        writers[number] = pa.ipc.new_stream(self._file(number), rows.schema, options=_PACKED)
                    writers[number].write_table(dealt.slice(start, stop - start).combine_chunks())
        finally:
            for writer in writers.values():
                writer.close()

    def _fitting(self, rows: pa.Table) -> int:
        """How many rows a range should have, when they are as long as these."""
        fitting: int = _RANGE_BYTES * rows.num_rows // max(rows.nbytes, 1)
        return max(1, min(_RANGE, fitting), -(-len(self.keys) // _RANGES))

    def _of_range(self, number: int, wanted: Keys) -> pa.Table:
        if self._held is None or self._held[0] != number:
            self._held = number, *self._read(number)
        _, table, keys = self._held
        return table.filter(pa.array(np.isin(keys, wanted)))

    def _read(self, number: int) -> tuple[pa.Table, Keys]:
        assert self._schema is not None
        table = self._schema.empty_table()
        # A range of which the table has no row has no file.
        if Path(self._file(number)).exists():
            with pa.ipc.open_stream(self._file(number)) as reader:
                table = reader.read_all()
        return table, _bytes(table.column(self.column).to_pylist())

    def _file(self, number: int) -> str:
        return str(self.folder / f"{number}.arrows")


def _gathered(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """The rows in pieces of _BATCH, or of _BATCH_BYTES where they are long."""
    held: list[pa.RecordBatch] = []
    for batch in reader:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _BATCH or sum(one.nbytes for one in held) >= _BATCH_BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held = []
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


class Spools(threading.local):
    """The spools of a lake, of the thread that asked for them."""

    def __init__(self, connection: Callable[[], duckdb.DuckDBPyConnection], address: str) -> None:
        self.connection, self.address = connection, address
        self.held: dict[tuple[str, str], Spool] = {}

    @contextmanager
    def holding(self, wanted: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[None]:
        """For the block, keeps spools of these keys by (table, column), each read when it is first asked for."""
        before = self.held
        with tempfile.TemporaryDirectory(prefix="gristmill-spool-") as folder:
            self.held = before | {
                (table, column): Spool(table, column, keys, Path(folder, f"{table}.{column}"))
                for (table, column), keys in wanted.items()
                if len(keys) >= LEAST
            }
            try:
                yield
            finally:
                self.held = before

    def rows(self, table: str, column: str, keys: Sequence[str]) -> pa.Table | None:
        """What `Spool.rows` gives, where there is a spool that holds these keys.

        Unavailable `disk_full`: there is no room for it.
        """
        spool = self.held.get((table, column))
        if spool is None or not spool.holds(keys):
            return None
        if not spool.filled:
            self._fill(spool)
        return spool.rows(keys)

    def _fill(self, spool: Spool) -> None:
        con = self.connection()
        try:
            spool.fill(con)
        except duckdb.Error as error:
            raise translated(error, self.address) from error
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            room = f"{tempfile.gettempdir()} has no room for a copy of the {spool.table} of {len(spool.keys)} keys"
            raise Unavailable("disk_full", room) from error
        finally:
            con.close()


def _bytes(keys: Sequence[str]) -> Keys:
    return np.array([key.encode() for key in keys], dtype=np.bytes_)
