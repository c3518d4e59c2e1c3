"""The engines of one open lake: one for most, one for large appends, one for heavy queries."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from warehouse.address import Address
from warehouse.engine import Attach, connect

# For heavy queries: so much memory, which every further thread asks more of, and the disk beyond it.
_ASIDE = {"memory_limit": "160MB", "threads": "2", "preserve_insertion_order": "false"}

# For large appends. With a second thread DuckDB collects rows batch by batch to keep their order: 1170 us of CPU time
# for a trajectory of 70 kB, 630 with one thread.
_APPENDING = {"threads": "1"}


class Engines:
    """Connections to a lake; safe for threads. Engines are made when they are first asked for."""

    def __init__(self, where: Address, how: Attach, con: duckdb.DuckDBPyConnection) -> None:
        self.where, self.how = where, how
        self._con = con
        self._appending: duckdb.DuckDBPyConnection | None = None
        self._heavy: duckdb.DuckDBPyConnection | None = None
        self._guard = threading.Lock()
        self._turn = threading.Lock()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own with the lake as its default; the caller closes it."""
        con = self.bare()
        con.execute("USE lake")
        return con

    def bare(self, *, large: bool = False) -> duckdb.DuckDBPyConnection:
        """A connection in which tables need their whole name (`lake.main.x`); the caller closes it.

        Where the lake is the default, DuckDB looks for every other name in its catalog first: a relation of 1,500
        keys took 12 ms to register and 5 to hash, and takes 0.5 and 1.6 here. large: of the engine for large appends.
        """
        with self._guard:
            if not large:
                return self._con.cursor()
            if self._appending is None:
                self._appending = connect(self.where, self.how, _APPENDING)
            return self._appending.cursor()

    @contextmanager
    def aside(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The engine for heavy queries, for one at a time: past _ASIDE of memory it works on the disk."""
        with self._turn:
            if self._heavy is None:
                self._heavy = connect(self.where, Attach(read_only=True, snapshot=self.how.snapshot), _ASIDE)
            yield self._heavy

    def close(self) -> None:
        """Closes all of them."""
        with self._guard:
            for con in (self._con, self._appending, self._heavy):
                if con is not None:
                    con.close()
