# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""How the lake's tables and views come to be: ordered, named migrations, under the writer lock.

The only place with DDL: concurrent DDL corrupts a DuckLake catalog. A migration runs once, in one transaction
together with its entry in `migrations`, so that a kill between two leaves a lake that the next opening
completes. A lake that lists a migration unknown here was written by a newer version and is refused. Views hold
no data: they are made anew whenever their definitions changed.
"""

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

import duckdb

from schemas.errors import LakeError, Unavailable, UserError
from schemas.ids import digest
from warehouse.address import Address
from warehouse.engine import Attach, connect
from warehouse.failures import translated
from warehouse.locks import LOCK, locked, postgres
from warehouse.tables import TABLES, create_statement
from warehouse.views import VIEWS


class Migration(NamedTuple):
    """A named step; `apply` gets a connection inside a transaction."""

    name: str
    apply: Callable[[duckdb.DuckDBPyConnection], None]


def _tables(con: duckdb.DuckDBPyConnection) -> None:
    for table in TABLES:
        con.execute(create_statement(table))


def _files(con: duckdb.DuckDBPyConnection) -> None:
    # zstd takes a sixth of the room at the same CPU time as the default (agent logs, measured).
    con.execute("CALL ducklake_set_option('lake', 'parquet_compression', 'zstd')")
    con.execute("CALL ducklake_set_option('lake', 'target_file_size', '256MB')")
    # Rows of these may be megabytes each: small row groups bound memory, and a read of few rows skips the others.
    for table in ("trajectories", "token_spans"):
        con.execute("CALL ducklake_set_option('lake', 'parquet_row_group_size', '4096', table_name => ?)", [table])


MIGRATIONS: tuple[Migration, ...] = (Migration("0001_tables", _tables), Migration("0002_files", _files))

# How long a reader waits for another process that is making the lake; measured: .3 s, 3 s on a busy machine.
_MAKING_S = 60.0

_BOOK = "migrations"
_VIEWS = "views:"


def exists(address: Address) -> bool:
    """Whether a lake was ever made there. Asked before attaching, which would make one without any lock."""
    if address.postgres:
        con = postgres(address.postgres)
        try:
            return con.execute("SELECT to_regclass('ducklake_metadata')").fetchone()[0] is not None
        finally:
            con.close()
    if not address.catalog_file.is_file():
        return False
    try:
        con = sqlite3.connect(f"file:{address.catalog_file}?mode=ro", uri=True, timeout=60)
        try:
            found = con.execute("SELECT count(*) FROM sqlite_master WHERE name = 'ducklake_metadata'").fetchone()
        finally:
            con.close()
    except sqlite3.DatabaseError as error:
        raise LakeError(f"{address.catalog_file} is not a readable catalog: {error}; see `gristmill doctor`") from error
    return bool(found[0])


def prepare(address: Address) -> None:
    """Makes the catalog file in WAL mode; without WAL readers wait seconds and see errors."""
    if address.postgres:
        return
    con = sqlite3.connect(address.catalog_file, timeout=60)
    try:
        con.execute("PRAGMA journal_mode=WAL")
    finally:
        con.close()


def views_name() -> str:
    """The entry of the current view definitions."""
    return _VIEWS + digest("\n".join(f"{name}: {query}" for name, query in VIEWS.items()))


def applied(con: duckdb.DuckDBPyConnection) -> list[str]:
    """The entries of the lake, in the order in which they were applied; empty for a lake just made."""
    try:
        return [row[0] for row in con.execute(f"SELECT name FROM lake.{_BOOK} ORDER BY position").fetchall()]
    except duckdb.CatalogException:
        # Not there yet.
        return []


def check(address: Address, names: list[str], *, read_only: bool) -> bool:
    """Whether the lake is up to date; UserError for a newer lake, and for an older one that may not be changed."""
    known = [migration.name for migration in MIGRATIONS]
    unknown = [name for name in names if name not in known and not name.startswith(_VIEWS)]
    if unknown:
        raise UserError(
            f"The lake {address.given} was written by a newer version of Gristmill (it has migration {unknown[-1]}).",
            f"This version knows migrations up to {known[-1]}.",
            "Upgrade Gristmill; the lake was not touched.",
        )
    missing = [name for name in known if name not in names]
    if read_only:
        if missing:
            raise UserError(
                f"The lake {address.given} is older than this version (it lacks {', '.join(missing)}).",
                "It is opened for reading only, so it cannot be migrated now.",
                "Open it once for writing: gristmill doctor",
            )
        return True
    # The newest entry for views counts: an older definition may have been current before.
    newest = next((name for name in reversed(names) if name.startswith(_VIEWS)), None)
    return not missing and newest == views_name()


def readable(address: Address) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a complete lake; waits while another process is just making or migrating it.

    UserError: no lake there, an older or a newer one. LakeError: a damaged catalog.
    """
    con = _complete(address, final=False)
    if con is None:
        _wait_for_maker(address)
        con = _complete(address, final=True)
    assert con is not None
    return con


def _complete(address: Address, *, final: bool) -> duckdb.DuckDBPyConnection | None:
    """The connection, or None for a lake that may be in the making; with `final` that is an error."""
    if not exists(address):
        if final:
            raise UserError(
                f"There is no lake at {address.given}.", "", "Make one by running a recipe, or name it with --lake."
            )
        return None
    try:
        con = connect(address, Attach(read_only=True))
    except duckdb.Error as error:
        raise translated(error, address.given) from error
    try:
        names = applied(con)
        if final or all(migration.name in names for migration in MIGRATIONS):
            check(address, names, read_only=True)
            return con
    except BaseException:
        con.close()
        raise
    con.close()
    return None


def _wait_for_maker(address: Address) -> None:
    # The maker holds the writer lock from before the catalog appears until the last migration.
    if not address.postgres and not (address.folder / LOCK).is_file():
        return
    try:
        with locked(address, _MAKING_S):
            return
    except Unavailable:
        # A lake on read-only ground has no maker.
        return


def migrate(con: duckdb.DuckDBPyConnection) -> None:
    """Applies what is missing, one transaction each; the caller holds the writer lock."""
    names = applied(con)
    if not names:
        con.execute(f"CREATE TABLE IF NOT EXISTS {_BOOK} (position BIGINT, name VARCHAR, applied_at TIMESTAMPTZ)")
    missing = [migration for migration in MIGRATIONS if migration.name not in names]
    for position, (name, apply) in enumerate([*missing, Migration(views_name(), _views)], len(names)):
        con.execute("BEGIN")
        try:
            apply(con)
            con.execute(f"INSERT INTO {_BOOK} VALUES (?, ?, now())", [position, name])
            con.execute("COMMIT")
        except BaseException:
            con.execute("ROLLBACK")
            raise


def _views(con: duckdb.DuckDBPyConnection) -> None:
    for name, query in VIEWS.items():
        con.execute(f'CREATE OR REPLACE VIEW "{name}" AS {query}')
