"""The small database beside the lake for what changes all the time: leases and the request cache.

A shared lake keeps them in tables of the catalog's Postgres database (schema `gristmill`). A local one keeps
each in its own WAL SQLite file in the lake's folder, not in the catalog file: heartbeats and cache commits
would otherwise contend with DuckLake's commits for SQLite's single writer.
"""

import random
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from schemas.errors import LakeError, Unavailable
from warehouse.address import Address
from warehouse.locks import postgres

_BUSY_S = 60.0
_SETUP_LOCK = 0x67726973746D6D


class Sidecar(Protocol):
    """One connection, used by one thread at a time; parameters are written `?`."""

    dialect: str

    @contextmanager
    def transaction(self) -> Iterator["Cursor"]:
        """A write transaction: committed durably at the end of the block, rolled back on an exception."""
        yield NotImplemented

    def read(self, query: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT; waits for no writer."""

    def close(self) -> None:
        """Closes the connection."""


class Cursor(Protocol):
    """What runs inside a transaction."""

    def run(self, query: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query, or those of RETURNING."""

    def many(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        """The same statement for many rows."""

    def count(self) -> int:
        """How many rows the last `run` touched."""


class _Cursor:
    def __init__(self, raw: Any, mark: str) -> None:
        self._raw, self._mark = raw, mark

    def run(self, query: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._raw.execute(query.replace("?", self._mark), tuple(params))
        return self._raw.fetchall() if self._raw.description else []

    def many(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        self._raw.executemany(query.replace("?", self._mark), rows)

    def count(self) -> int:
        return int(self._raw.rowcount)


class SQLiteSidecar:
    """A WAL SQLite file. synchronous: FULL where losing the newest commits to a power cut would cost money."""

    dialect = "sqlite"

    def __init__(self, path: Path, schema: Sequence[str], synchronous: str = "FULL") -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            self._con = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            _use_wal(self._con)
            self._con.execute(f"PRAGMA synchronous={synchronous}")
            self._con.execute("BEGIN IMMEDIATE")
            for statement in schema:
                self._con.execute(statement)
            self._con.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise _translated(error, path) from error

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """See Sidecar. Begins as a writer, so that it waits for its turn instead of failing half-way."""
        with self._lock:
            try:
                self._con.execute("BEGIN IMMEDIATE")
                try:
                    yield _Cursor(self._con.cursor(), "?")
                    self._con.execute("COMMIT")
                except BaseException:
                    if self._con.in_transaction:
                        self._con.execute("ROLLBACK")
                    raise
            except sqlite3.DatabaseError as error:
                raise _translated(error, self.path) from error

    def read(self, query: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See Sidecar."""
        with self._lock:
            try:
                return self._con.execute(query, tuple(params)).fetchall()
            except sqlite3.DatabaseError as error:
                raise _translated(error, self.path) from error

    def close(self) -> None:
        """See Sidecar."""
        with self._lock:
            self._con.close()


class PostgresSidecar:
    """A connection to the catalog's database; reconnects after a broken one."""

    dialect = "postgres"

    def __init__(self, url: str, schema: Sequence[str]) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._con: Any = None
        with self.transaction() as cursor:
            # CREATE … IF NOT EXISTS still races between sessions in Postgres.
            cursor.run("SELECT pg_advisory_xact_lock(?)", (_SETUP_LOCK,))
            cursor.run("CREATE SCHEMA IF NOT EXISTS gristmill")
            for statement in schema:
                cursor.run(statement)

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """See Sidecar."""
        import psycopg

        with self._lock:
            if self._con is None or self._con.closed or self._con.broken:
                self._con = postgres(self.url)
                self._con.execute("SET search_path TO gristmill, public")
            try:
                with self._con.transaction(), self._con.cursor() as raw:
                    yield _Cursor(raw, "%s")
            except psycopg.OperationalError as error:
                raise Unavailable("catalog_unreachable", str(error)) from error

    def read(self, query: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See Sidecar."""
        with self.transaction() as cursor:
            return cursor.run(query, params)

    def close(self) -> None:
        """See Sidecar."""
        with self._lock:
            if self._con is not None:
                self._con.close()


def _use_wal(con: sqlite3.Connection) -> None:
    """Switches a file to WAL. SQLite does not wait in this statement, whatever the connection's timeout: of
    several processes that open a new file at once all but one are told "locked" at once, so they ask again."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            con.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.002 * (1 + random.random()))  # noqa: S311 - jitter


def _translated(error: sqlite3.DatabaseError, path: Path) -> Exception:
    text = str(error)
    if "disk is full" in text or "disk I/O error" in text:
        return Unavailable("disk_full", f"{path}: {text}")
    if "locked" in text:
        return Unavailable("database_locked", f"{path}: {text} for over {_BUSY_S:.0f} s")
    return LakeError(f"{path}: {text}")


def sidecar(address: Address, name: str, schema: Sequence[str], synchronous: str = "FULL") -> Sidecar:
    """The sidecar `name` of a lake, made with `schema` (idempotent statements that both dialects accept)."""
    if address.postgres:
        return PostgresSidecar(address.postgres, schema)
    return SQLiteSidecar(address.folder / f"{name}.sqlite", schema, synchronous)
