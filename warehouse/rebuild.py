# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""Rebuilds a lake whose catalog is lost or damaged, from its newest sound checkpoint.

A local lake's catalog is restored from its backup; where there is none (a shared lake, or a torn backup) a new
catalog is made and the checkpoint's files are read into it, one row per id. The damaged catalog is moved aside,
no file is deleted. What came after the checkpoint is reported: those rows are made again by the next run, and
answers that were paid for are in the request cache.
"""

import hashlib
import sqlite3
import time
from pathlib import Path

import duckdb

from schemas.errors import LakeError, UserError
from schemas.trajectory import Base
from warehouse import checkpoint as checkpoints
from warehouse.address import Address, resolve
from warehouse.checkpoint import Checkpoint
from warehouse.engine import load
from warehouse.files import on_disk
from warehouse.lake import Lake
from warehouse.locks import locked


class Rebuilt(Base, frozen=True, kw_only=True):
    """What a rebuild did.

    came_after: Parquet files that the checkpoint does not know (appended later, merged away, or orphans).
    repeated: rows left out because their id was there already.
    """

    snapshot: int
    way: str
    rows: int
    repeated: int
    came_after: tuple[str, ...]
    set_aside: str


def rebuild(address: str | Path) -> Rebuilt:
    """Rebuilds the lake at `address`.

    UserError: no checkpoint, or a catalog that already holds a lake. LakeError: a file of the checkpoint is gone.
    """
    where = resolve(address)
    con = duckdb.connect(":memory:")
    try:
        load(con, where)
        numbers = checkpoints.snapshots(con, where)
        if not numbers:
            raise UserError(
                f"There is no checkpoint at {where.checkpoints}.",
                "A lake is rebuilt from the checkpoint that each refresh ends with.",
            )
        state = checkpoints.read(con, where, numbers[0])
    finally:
        con.close()
    _check_files(where, state)
    if where.shared:
        return _read_again(where, state, "")
    with locked(where):
        aside = _set_aside(where)
        backup = Path(where.checkpoints) / f"{state.snapshot}.sqlite"
        restored = _restore(where, backup)
    if restored:
        with Lake.open(where.given) as lake:
            return _report(where, state, lake, "catalog backup", 0, aside)
    return _read_again(where, state, aside)


def _check_files(where: Address, state: Checkpoint) -> None:
    if where.base.startswith("s3://"):
        return
    for table in state.tables:
        for file in table.files:
            path = Path(where.data) / file.path
            if not path.is_file():
                raise LakeError(f"{path} is gone; restore the lake's data folder from your own backup")
            with path.open("rb") as handle:
                if hashlib.file_digest(handle, "sha256").hexdigest() != file.sha256:
                    raise LakeError(f"{path} has changed since the checkpoint {state.snapshot}")


def _set_aside(where: Address) -> str:
    target = where.catalog_file.with_name(f"catalog.damaged-{time.time_ns()}.sqlite")
    moved = ""
    for ending in ("", "-wal", "-shm"):
        part = where.catalog_file.with_name(where.catalog_file.name + ending)
        if part.exists():
            part.rename(target.with_name(target.name + ending))
            moved = str(target)
    return moved


def _restore(where: Address, backup: Path) -> bool:
    """Puts the backup in the catalog's place if it is a whole SQLite file."""
    if not backup.is_file():
        return False
    temporary = where.catalog_file.with_name(".catalog.sqlite.part")
    temporary.unlink(missing_ok=True)
    try:
        source, copy = sqlite3.connect(f"file:{backup}?mode=ro", uri=True), sqlite3.connect(temporary)
        try:
            sound = bool(source.execute("PRAGMA quick_check").fetchone()[0] == "ok")
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=WAL")
        finally:
            copy.close()
            source.close()
    except sqlite3.DatabaseError:
        temporary.unlink(missing_ok=True)
        return False
    if sound:
        temporary.replace(where.catalog_file)
    return sound


def _read_again(where: Address, state: Checkpoint, aside: str) -> Rebuilt:
    """A new catalog, filled from the checkpoint's files."""
    with Lake.open(where.given) as lake:
        names = [table.name for table in state.tables if table.name != "migrations"]
        if any(lake.sql(f"SELECT 1 FROM {name} LIMIT 1").num_rows for name in names):
            raise UserError(f"The catalog of {where.given} already holds rows.", "", "Rebuild into an empty database.")
        repeated = 0
        with lake.writing() as con:
            con.execute("BEGIN")
            for table in state.tables:
                if table.name == "migrations" or not table.files:
                    continue
                paths = [where.data + file.path for file in table.files]
                columns = ", ".join(f'"{column.name}"' for column in table.columns)
                counted = con.execute(
                    f"INSERT INTO {table.name} BY NAME SELECT {columns} FROM read_parquet(?) "
                    "QUALIFY row_number() OVER (PARTITION BY id ORDER BY created_at) = 1",
                    [paths],
                ).fetchone()
                repeated += sum(file.rows for file in table.files) - (int(counted[0]) if counted else 0)
            con.execute("COMMIT")
        return _report(where, state, lake, "data files", repeated, aside)


def _report(where: Address, state: Checkpoint, lake: Lake, way: str, repeated: int, aside: str) -> Rebuilt:
    rows = sum(
        int(lake.sql(f"SELECT count(*) FROM {table.name}").column(0)[0].as_py())
        for table in state.tables
        if table.name != "migrations"
    )
    known = {file.path for table in state.tables for file in table.files}
    fresh = {Path(str(path)).name for path in _listed_now(lake, state)}
    after = [
        str(path)
        for path in on_disk(where)
        if str(path).removeprefix(where.data) not in known and path.name not in fresh
    ]
    return Rebuilt(
        snapshot=state.snapshot,
        way=way,
        rows=rows,
        repeated=repeated,
        came_after=tuple(after),
        set_aside=aside,
    )


def _listed_now(lake: Lake, state: Checkpoint) -> list[str]:
    return [
        path
        for table in state.tables
        for path in lake.sql("SELECT data_file FROM ducklake_list_files('lake', ?)", params=[table.name])[
            "data_file"
        ].to_pylist()
    ]
