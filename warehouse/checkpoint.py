# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""Checkpoints: what a lake needs to be rebuilt without its catalog.

A refresh ends with `checkpoint(lake)`. It writes `_checkpoint/<snapshot>.json` (schemas and live files with
rows, size and hash) and a backup of the catalog, each under a temporary name first. Files never change, so that
only those new since the last checkpoint are hashed. The newest three are kept.
"""

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import msgspec

from schemas.errors import LakeError
from schemas.trajectory import Base
from warehouse.address import Address
from warehouse.engine import quoted
from warehouse.files import META
from warehouse.lake import Lake
from warehouse.migrations import applied

FORMAT = 1
_KEPT = 3


class Column(Base, frozen=True, kw_only=True):
    """A column and its DuckDB type."""

    name: str
    type: str


class File(Base, frozen=True, kw_only=True):
    """A live Parquet file; path is relative to the data folder."""

    path: str
    rows: int
    bytes: int
    sha256: str


class TableState(Base, frozen=True, kw_only=True):
    """A table at the checkpoint's snapshot."""

    name: str
    columns: tuple[Column, ...]
    files: tuple[File, ...]


class Checkpoint(Base, frozen=True, kw_only=True):
    """Everything that the lake held at `snapshot`."""

    format: int
    snapshot: int
    created_at: str
    migrations: tuple[str, ...]
    tables: tuple[TableState, ...]


def checkpoint(lake: Lake) -> str:
    """Writes a checkpoint of the newest snapshot and returns its place; the same snapshot again changes nothing."""
    where = lake.where
    known = latest(lake)
    if known is not None and known.snapshot == lake.snapshot():
        return f"{where.checkpoints}{known.snapshot}.json"
    hashes = _hashes(known)
    # Hashing may take long after a large refresh, so it comes before the lock; under it only a few are left.
    state = _state(lake, hashes)
    with lake.writing() as con:
        if state.snapshot != lake.snapshot():
            state = _state(lake, hashes)
        if where.root is not None:
            folder = Path(where.checkpoints)
            folder.mkdir(exist_ok=True)
            _backup(where.catalog_file, folder / f"{state.snapshot}.sqlite")
            _write(folder / f"{state.snapshot}.json", msgspec.json.format(msgspec.json.encode(state), indent=1))
            _prune(folder)
        else:
            _export(con, where, state)
    return f"{where.checkpoints}{state.snapshot}.json"


def latest(lake: Lake) -> Checkpoint | None:
    """The newest checkpoint of a lake, or None."""
    con = lake.cursor()
    try:
        found = [int(Path(path).stem) for path in _listed(con, lake.where)]
        return read(con, lake.where, max(found)) if found else None
    finally:
        con.close()


def read(con: duckdb.DuckDBPyConnection, where: Address, snapshot: int) -> Checkpoint:
    """A checkpoint by its snapshot; LakeError when it cannot be read."""
    row = con.execute("SELECT content FROM read_text(?)", [f"{where.checkpoints}{snapshot}.json"]).fetchone()
    try:
        state = msgspec.json.decode(row[0] if row else b"", type=Checkpoint)
    except msgspec.DecodeError as error:
        raise LakeError(f"the checkpoint {snapshot}.json of {where.given} cannot be read: {error}") from error
    if state.format != FORMAT:
        raise LakeError(f"the checkpoint {snapshot}.json has format {state.format}, this version knows {FORMAT}")
    return state


def _listed(con: duckdb.DuckDBPyConnection, where: Address) -> list[str]:
    rows = con.execute("SELECT file FROM glob(?)", [f"{where.checkpoints}*.json"]).fetchall()
    return [path for (path,) in rows if Path(path).stem.isdigit()]


def snapshots(con: duckdb.DuckDBPyConnection, where: Address) -> list[int]:
    """The snapshots that have a checkpoint, newest first."""
    return sorted((int(Path(path).stem) for path in _listed(con, where)), reverse=True)


def _hashes(known: Checkpoint | None) -> dict[str, str]:
    return {file.path: file.sha256 for table in known.tables for file in table.files} if known else {}


def _state(lake: Lake, hashes: dict[str, str]) -> Checkpoint:
    """The lake now; hashes: path → SHA-256 of files hashed before, filled up here."""
    con = lake.cursor()
    data = lake.where.data
    try:
        con.execute("BEGIN")
        row = con.execute("SELECT * FROM ducklake_current_snapshot('lake')").fetchone()
        rows = dict(con.execute(f"SELECT path, record_count FROM {META}.ducklake_data_file").fetchall())
        counts = {str(path).rpartition("/")[2]: int(count) for path, count in rows.items()}
        columns: dict[str, list[Column]] = {
            name: []
            for (name,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'").fetchall()
        }
        for name, column, kind in con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = 'lake' "
            "ORDER BY table_name, column_index"
        ).fetchall():
            if name in columns:
                columns[name].append(Column(name=column, type=kind))
        # Asking for a table's files takes 3 ms, and most tables of a small lake have none.
        filled = con.execute(
            f"SELECT DISTINCT table_name FROM {META}.ducklake_table JOIN {META}.ducklake_data_file USING (table_id)"
        ).fetchall()
        tables = []
        for name in sorted(columns):
            asked = "SELECT data_file, data_file_size_bytes FROM ducklake_list_files('lake', ?)"
            listed = con.execute(asked, [name]).fetchall() if (name,) in filled else []
            files = []
            for path, size in sorted(listed):
                short = str(path).removeprefix(data)
                if short not in hashes:
                    hashes[short] = _sha256(con, lake.where, str(path))
                files.append(
                    File(path=short, rows=counts[short.rpartition("/")[2]], bytes=int(size), sha256=hashes[short])
                )
            tables.append(TableState(name=name, columns=tuple(columns[name]), files=tuple(files)))
        migrations = tuple(applied(con))
        con.execute("COMMIT")
    finally:
        con.close()
    assert row is not None
    return Checkpoint(
        format=FORMAT,
        snapshot=int(row[0]),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        migrations=migrations,
        tables=tuple(tables),
    )


def _sha256(con: duckdb.DuckDBPyConnection, where: Address, path: str) -> str:
    if where.base.startswith("s3://"):
        row = con.execute("SELECT sha256(content) FROM read_blob(?)", [path]).fetchone()
        assert row is not None
        return str(row[0])
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)


def _backup(catalog: Path, target: Path) -> None:
    """A consistent copy of a SQLite catalog that others read and write meanwhile."""
    temporary = target.with_name(f".{target.name}.part")
    temporary.unlink(missing_ok=True)
    source, copy = sqlite3.connect(catalog, timeout=60), sqlite3.connect(temporary)
    try:
        source.backup(copy)
    finally:
        copy.close()
        source.close()
    temporary.replace(target)


def _prune(folder: Path) -> None:
    numbers = sorted((int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit()), reverse=True)
    for number in numbers[_KEPT:]:
        (folder / f"{number}.json").unlink(missing_ok=True)
        (folder / f"{number}.sqlite").unlink(missing_ok=True)


def _export(con: duckdb.DuckDBPyConnection, where: Address, state: Checkpoint) -> None:
    """A shared lake's checkpoint, written by DuckDB: a put of one object is all or nothing, the JSON comes last."""
    if not where.base.startswith("s3://"):
        Path(where.checkpoints).mkdir(parents=True, exist_ok=True)
    tables: Sequence[str] = [
        name
        for (name,) in con.execute(
            f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{META}' AND table_name LIKE 'ducklake_%'"
        ).fetchall()
    ]
    for name in tables:
        place = f"{where.checkpoints}{state.snapshot}.{name}.parquet"
        con.execute(f"COPY (SELECT * FROM {META}.{name}) TO {quoted(place)} (FORMAT parquet)")
    place = f"{where.checkpoints}{state.snapshot}.json"
    text = msgspec.json.encode(state).decode()
    # One field without quoting or delimiters is the text itself.
    con.execute(
        f"COPY (SELECT {quoted(text)}) TO {quoted(place)} (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIM '\x01')"
    )
