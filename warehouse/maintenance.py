# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""What keeps a lake small and sound: merge, expire, clean up; and a look at its health.

`maintain` works under the writer lock and only when no batch holds a lease: a merge beside a write is known to
corrupt DuckLake elsewhere. `examine` only reads and compares catalog and files.
"""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from schemas.errors import LakeError, Unavailable
from schemas.trajectory import Base
from warehouse.blobs import Blobs
from warehouse.blobs import named as named_blobs
from warehouse.files import META, named, on_disk
from warehouse.lake import Lake
from warehouse.tables import TABLES

KEEP_SNAPSHOTS = timedelta(days=30)
KEEP_FILES = timedelta(days=1)


class Maintenance(Base, frozen=True, kw_only=True):
    """What a maintenance step did, in numbers of files and snapshots."""

    merged_files: int
    expired_snapshots: int
    deleted_files: int
    deleted_orphans: int
    deleted_blobs: int
    live_files: int


def maintain(
    lake: Lake, *, keep_snapshots: timedelta = KEEP_SNAPSHOTS, keep_files: timedelta = KEEP_FILES
) -> Maintenance:
    """Merges small files, expires old snapshots, deletes files that nothing names any more.

    A snapshot is kept while it is younger than `keep_snapshots` or named in `exports`; a file for `keep_files` after
    it was given up, so that a reader that began earlier ends well; so is a blob that no row names.
    Unavailable("busy"): batches are being worked on.
    """
    with lake.writing() as con:
        working = lake.leases.active()
        if working:
            raise Unavailable(
                "busy", f"{working} batches are being worked on; run maintenance when the refresh has ended"
            )
        merged = sum(row[2] for row in con.execute("CALL ducklake_merge_adjacent_files('lake')").fetchall())
        expired = _expire(con, datetime.now(UTC) - keep_snapshots)
        before = datetime.now(UTC) - keep_files
        deleted = con.execute("CALL ducklake_cleanup_old_files('lake', older_than => ?)", [before]).fetchall()
        orphans = con.execute("CALL ducklake_delete_orphaned_files('lake', older_than => ?)", [before]).fetchall()
        blobs = Blobs(lake).removed(keep_files.total_seconds())
        live = con.execute(f"SELECT count(*) FROM {META}.ducklake_data_file WHERE end_snapshot IS NULL").fetchone()
    return Maintenance(
        merged_files=int(merged),
        expired_snapshots=expired,
        deleted_files=len(deleted),
        deleted_orphans=len(orphans),
        deleted_blobs=blobs,
        live_files=int(live[0]) if live else 0,
    )


def _expire(con: duckdb.DuckDBPyConnection, before: datetime) -> int:
    rows = con.execute(
        "SELECT snapshot_id FROM ducklake_snapshots('lake') WHERE snapshot_time < ? "
        "AND snapshot_id NOT IN (SELECT snapshot FROM exports) "
        "AND snapshot_id <> (SELECT * FROM ducklake_current_snapshot('lake'))",
        [before],
    ).fetchall()
    old = [int(row[0]) for row in rows]
    if old:
        con.execute(f"CALL ducklake_expire_snapshots('lake', versions => [{', '.join(map(str, old))}])")
    return len(old)


def examine(lake: Lake) -> list[str]:
    """What is wrong with the lake, one sentence each; empty when it is sound. Reads only, also while others write."""
    con = lake.cursor()
    try:
        troubles = [*_files(lake, con), *_duplicates(con), *_blobs(lake)]
        if not lake.where.shared:
            mode = _journal_mode(lake.where.catalog_file)
            if mode != "wal":
                troubles.append(f"the catalog is in journal mode {mode}, not WAL: readers and writers block each other")
        return troubles
    finally:
        con.close()


def _files(lake: Lake, con: duckdb.DuckDBPyConnection) -> list[str]:
    """Catalog against files; only where the data path is a local folder."""
    if lake.where.base.startswith("s3://"):
        return []
    # The listing comes first: a file that is committed in between is then missing from it, never from the catalog.
    present = {path.name: path for path in on_disk(lake.where)}
    troubles: list[str] = []
    lost: list[str] = []
    for table in TABLES:
        listed = con.execute("SELECT data_file, data_file_size_bytes FROM ducklake_list_files('lake', ?)", [table])
        for path, size in listed.fetchall():
            file = Path(path)
            if not file.is_file():
                lost.append(str(path))
            elif file.stat().st_size != size:
                troubles.append(f"{path} has {file.stat().st_size} bytes, the catalog says {size}")
    if lost:
        troubles.append(f"{len(lost)} files of the newest snapshot are gone, such as {lost[0]}: rebuild the lake")
    known = named(con)
    hour_ago = datetime.now(UTC).timestamp() - 3600
    orphans = [path for name, path in present.items() if name not in known and path.stat().st_mtime < hour_ago]
    if orphans:
        size = sum(path.stat().st_size for path in orphans)
        troubles.append(
            f"{len(orphans)} files ({size / 2**20:.1f} MiB) of killed appends belong to no snapshot: {orphans[0]}"
        )
    return troubles


def _blobs(lake: Lake) -> list[str]:
    """Rows against the blob folder, and the other way round."""
    blobs = Blobs(lake)
    try:
        # The rows come first: a blob is written before its row, so that one which is committed meanwhile is no orphan.
        wanted = named_blobs(lake)
    except LakeError as error:
        return [f"the blobs that rows name cannot be listed: {error}"]
    present = blobs.stored()
    troubles = []
    if gone := sorted(wanted - present):
        troubles.append(f"{len(gone)} blobs that rows name are gone, such as {gone[0]}: import their source again")
    orphans = sorted(present - wanted)
    if not lake.where.base.startswith("s3://"):
        orphans = [sha256 for sha256 in orphans if blobs.age(sha256) > 3600]
    if orphans:
        troubles.append(f"{len(orphans)} blobs of killed imports belong to no row, such as {orphans[0]}")
    return troubles


def _duplicates(con: duckdb.DuckDBPyConnection) -> list[str]:
    found = []
    for table in TABLES:
        try:
            row = con.execute(f"SELECT count(*) - count(DISTINCT id) FROM {table}").fetchone()
        except duckdb.Error as error:
            found.append(f"{table} cannot be read: {error}")
            continue
        if row and row[0]:
            found.append(f"{table} has {row[0]} repeated ids; views show each once")
    return found


def _journal_mode(catalog: Path) -> str:
    """The journal mode of a SQLite catalog, asked of SQLite itself."""
    con = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True, timeout=60)
    try:
        return str(con.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        con.close()
