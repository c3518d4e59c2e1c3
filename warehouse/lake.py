# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""The lake: the only way rows get in, and the typed way out.

    lake = Lake.open("lake")
    lake.append(Stamp(run_id, operator, fingerprint), {"tasks": [task, ...]})
    lake.sql("select kind, count(*) from tasks group by kind")

An append is one transaction over all its tables: ids that are already there are filtered out, the lease is
checked, and everything is committed or nothing. Data tables are append-only. One `Lake` may be used by many
threads; many processes may open the same address.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import duckdb
import pyarrow as pa

from schemas.errors import GristmillError, LakeError, UserError
from schemas.trajectory import Base
from warehouse import migrations
from warehouse.address import Address, resolve
from warehouse.arrow import stamp, to_arrow
from warehouse.engine import Attach, connect
from warehouse.engines import Engines
from warehouse.failures import retryable, translated
from warehouse.files import sweep
from warehouse.index import RowIndex, during
from warehouse.inserts import Note, insert, tell
from warehouse.leases import Lease, Leases
from warehouse.locks import locked, writer_lock
from warehouse.reads import Reads
from warehouse.spool import Spools
from warehouse.tables import TABLES

Result = TypeVar("Result")

# A lost commit is tried again this often; under the writer lock only foreign catalog users can cause one.
_ATTEMPTS = 12

# From how many bytes on an append is large; starting the engine for those takes a tenth of a second.
LARGE = 1 << 20


class Stamp(NamedTuple):
    """Who wrote a row: run, operator (plug-in id) and the operator's fingerprint."""

    run_id: str
    operator: str
    fingerprint: str


class Lake(Reads):
    """An open lake; see the module's docstring. Made by `Lake.open`."""

    def __init__(self, where: Address, how: Attach, con: duckdb.DuckDBPyConnection) -> None:
        self.where, self.how = where, how
        self.address = where.given
        self.leases = Leases(where)
        self._engines = Engines(where, how, con)
        self._lock = writer_lock(where)
        self._guard = threading.Lock()
        self._indexes: dict[tuple[str, str], RowIndex] = {}
        self._spools = Spools(self._engines.bare, self.address)

    @classmethod
    def open(cls, address: str | Path = "lake", *, read_only: bool = False) -> "Lake":
        """Opens a lake: a folder, a TOML file or a URL (see `warehouse.address`).

        Made and migrated unless `read_only`. UserError: no lake there, a malformed address, or a lake from a
        newer version. LakeError: a damaged catalog.
        """
        where = resolve(address)
        if read_only:
            return cls(where, Attach(read_only=True), migrations.readable(where))
        if migrations.exists(where):
            con = _attached(where)
            if migrations.check(where, migrations.applied(con), read_only=False):
                return cls(where, Attach(), con)
            con.close()
        if not where.postgres:
            where.folder.mkdir(parents=True, exist_ok=True)
        with locked(where):
            migrations.prepare(where)
            con = _attached(where)
            # Again under the lock: another process may have done it meanwhile.
            if not migrations.check(where, migrations.applied(con), read_only=False):
                migrations.migrate(con)
        return cls(where, Attach(), con)

    def at(self, snapshot: int) -> "Lake":
        """The lake as it was at an earlier snapshot, read-only; UserError when there is no such snapshot."""
        how = Attach(read_only=True, snapshot=snapshot)
        try:
            con = connect(self.where, how)
        except duckdb.Error as error:
            raise UserError(
                f"The lake {self.address} has no snapshot {snapshot}.",
                f"Its newest is {self.snapshot()}; old ones may have expired.",
                f"First cause: {str(error).splitlines()[0]}",
            ) from error
        return Lake(self.where, how, con)

    def append(
        self,
        by: Stamp,
        rows: "Mapping[str, Sequence[Base] | pa.Table]",
        lease: Lease | None = None,
    ) -> dict[str, int]:
        """Appends rows to tables in one transaction and returns how many were new, per table.

        Ids already in the table, and repeated ones, are left out, so that the same append twice adds nothing.
        LeaseLost: the lease is no longer ours, nothing was written. RecordError: a row cannot be stored (named).
        Unavailable: the disk is full or the catalog cannot be reached, nothing was written. LakeError: the commit
        was lost again and again.
        """
        if self.how.read_only:
            raise LakeError(f"the lake {self.address} is open for reading only")
        ready = {table: to_arrow(table, batch) for table, batch in rows.items()}
        ready = {table: batch for table, batch in ready.items() if batch.num_rows}
        if not ready:
            return dict.fromkeys(rows, 0)
        with self._lock.held():
            started = time.time()
            try:
                added = self._retried(lambda: self._commit(by, ready, lease))
            except GristmillError:
                self._tidy(ready, started)
                raise
        return {table: added.get(table, 0) for table in rows}

    def _tidy(self, tables: Iterable[str], started: float) -> None:
        """Removes the files of a failed append, so that a full disk has room again; a failure here changes nothing."""
        try:
            con = self.cursor()
            try:
                # File times may be coarser than the clock.
                sweep(con, self.where, tables, started - 1.0)
            finally:
                con.close()
        except (duckdb.Error, OSError):
            return

    def _commit(self, by: Stamp, rows: dict[str, pa.Table], lease: Lease | None) -> dict[str, int]:
        con = self._engines.bare(large=sum(batch.nbytes for batch in rows.values()) > LARGE)
        now = datetime.now(UTC)
        added: dict[str, int] = {}
        notes: list[Note] = []
        try:
            con.execute("BEGIN")
            try:
                for table, batch in rows.items():
                    stamped = stamp(table, batch, *by, now)
                    added[table], more = insert(con, stamped, self._index(table, "id"), self._indexes_of(table))
                    notes += more
                if lease is not None:
                    lease.check()
                con.execute("COMMIT" if any(added.values()) else "ROLLBACK")
            except BaseException:
                _rollback(con)
                raise
            tell(con, notes)
        finally:
            con.close()
        return added

    def sql(
        self, query: str, *, ids: Sequence[str] | None = None, params: Sequence[Any] | dict[str, Any] = ()
    ) -> pa.Table:
        """The result of a query of ours; `ids` becomes the relation ids(id). For users' SQL see `warehouse.query`.

        params: for `?` a sequence, for `$name` a dict.
        """

        def run() -> pa.Table:
            con = self._engines.bare()
            try:
                if ids is not None:
                    con.register("ids", pa.table({"id": pa.array(ids, pa.large_string())}))
                con.execute("USE lake")
                return con.execute(query, params if isinstance(params, dict) else list(params)).to_arrow_table()
            finally:
                con.close()

        return self._retried(run)

    def sql_aside(self, query: str, params: Sequence[Any] | dict[str, Any]) -> pa.Table:
        """The result of a heavy query of ours on an engine of its own: past ASIDE of memory it works on the disk.

        All such queries of a lake share it, one after the other: a new one takes .1 s of CPU time.
        """

        def run() -> pa.Table:
            with self._engines.aside() as con:
                return con.execute(query, params if isinstance(params, dict) else list(params)).to_arrow_table()

        return self._retried(run)

    def warm(self) -> None:
        """Makes the engine of `sql_aside` now, for whoever has time now and none later."""
        self.sql_aside("SELECT count(*) FROM runs", ())

    @contextmanager
    def writing(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Holds the writer lock for the block, for maintenance: nobody appends meanwhile."""
        with self._lock.held():
            con = self.cursor()
            try:
                yield con
            finally:
                con.close()

    def find(
        self,
        table: str,
        column: str,
        keys: Sequence[str],
        columns: Sequence[str] = ("*",),
        where: str = "true",
        params: Sequence[Any] = (),
    ) -> pa.Table:
        """The rows of `table` whose text column `column` is one of `keys`, in no order; `where` narrows them further.

        Reads only the files that hold such rows, however large the table (see `warehouse.index`).
        """
        index = self._index(table, column)
        schema = TABLES[table].schema
        names = [field for name in columns for field in (schema.names if name == "*" else [name])]
        spooled = self._spools.rows(table, column, keys) if where == "true" else None
        if spooled is not None:
            return spooled.select(names)

        def run() -> pa.Table:
            con = self._engines.bare()
            try:
                con.register("ids", pa.table({"id": pa.array(list(dict.fromkeys(keys)), pa.large_string())}))
                times = index.appends(con, "ids")
                if not len(times):
                    # What is new is asked for most, and a query for nothing takes as long as one for a little.
                    return pa.schema([schema.field(name) for name in names]).empty_table()
                given = ", ".join(f'"{name}"' for name in names)
                return con.execute(
                    f'SELECT {given} FROM lake.main.{table} WHERE "{column}" IN (SELECT id FROM ids) '
                    f"AND {during(times)} AND {where}",
                    list(params),
                ).to_arrow_table()
            finally:
                con.close()

        return self._retried(run)

    @contextmanager
    def spooled(self, wanted: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[None]:
        """For a block in which one thread asks for all rows of these keys, a few at a time and in this order.

        wanted: keys by (table, column); each table is read once, when it is first asked for. Needs room on the disk
        for the rows, in the system's temporary folder; `find` raises Unavailable `disk_full` without it. See
        `warehouse.spool`.
        """
        with self._spools.holding(wanted):
            yield

    def snapshot(self) -> int:
        """The number of the snapshot that this lake shows."""
        if self.how.snapshot is not None:
            return self.how.snapshot
        return int(self.sql("SELECT * FROM ducklake_current_snapshot('lake')").column(0)[0].as_py())

    def close(self) -> None:
        """Closes all connections and ends the heartbeat."""
        self.leases.close()
        self._engines.close()
        self._lock.close()

    def __enter__(self) -> "Lake":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _index(self, table: str, column: str) -> RowIndex:
        with self._guard:
            return self._indexes.setdefault((table, column), RowIndex(table, column))

    def _indexes_of(self, table: str) -> list[RowIndex]:
        with self._guard:
            return [index for (of, _), index in self._indexes.items() if of == table]

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own to the same lake; for this package, the caller closes it."""
        return self._engines.cursor()

    def _retried(self, work: Callable[[], Result]) -> Result:
        """Runs `work` again as a whole, with growing jittered pauses, while its commit or read is lost to others."""
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except duckdb.Error as error:
                if not retryable(error) or attempt == _ATTEMPTS - 1:
                    raise translated(error, self.address) from error
                time.sleep(min(0.05 * 1.6**attempt, 3.0) * (0.5 + random.random()))  # noqa: S311 - jitter
        raise AssertionError("unreachable")


def _attached(where: Address) -> duckdb.DuckDBPyConnection:
    """A connection that may write."""
    try:
        return connect(where, Attach())
    except duckdb.Error as error:
        raise translated(error, where.given) from error


def _rollback(con: duckdb.DuckDBPyConnection) -> None:
    try:
        con.execute("ROLLBACK")
    except duckdb.Error:
        # A failed COMMIT has rolled back already.
        return


__all__ = ["Lake", "Lease", "Stamp"]
