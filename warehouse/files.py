# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""The lake's Parquet files against its catalog. A folder listing alone says nothing: the catalog decides.

A killed or failed append leaves files that no snapshot names (orphans). They are removed only under the writer
lock, when nobody can be about to commit them.
"""

from collections.abc import Iterable
from pathlib import Path

import duckdb

from warehouse.address import Address

# DuckLake attaches the catalog's own tables under this name.
META = "__ducklake_metadata_lake"


def named(con: duckdb.DuckDBPyConnection) -> set[str]:
    """The names (UUIDs, unique in the lake) of all files of all snapshots, and of those waiting to be deleted."""
    rows = con.execute(
        f"SELECT path FROM {META}.ducklake_data_file UNION ALL SELECT path FROM {META}.ducklake_delete_file "
        f"UNION ALL SELECT path FROM {META}.ducklake_files_scheduled_for_deletion"
    ).fetchall()
    return {str(path).rpartition("/")[2] for (path,) in rows}


def on_disk(address: Address, table: str = "**") -> list[Path]:
    """The Parquet files in the data folder, of one table or of all; empty when it is not a local folder."""
    if address.data.startswith("s3://"):
        return []
    return sorted(Path(address.data).glob(f"main/{table}/*.parquet"))


def sweep(con: duckdb.DuckDBPyConnection, address: Address, tables: Iterable[str], since: float) -> int:
    """Removes what a failed append wrote: files younger than `since` (seconds since the epoch) that no snapshot names.

    The caller holds the writer lock and has rolled back. Returns how many were removed.
    """
    known = named(con)
    removed = 0
    for table in tables:
        for path in on_disk(address, table):
            if path.name not in known and path.stat().st_mtime >= since:
                path.unlink(missing_ok=True)
                removed += 1
    return removed
