# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""Rows into tables, inside of an append's transaction: those whose ids are new, in their order."""

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.index import RowIndex, Rows, during

# What an index is to be told once the rows are committed.
Note = tuple[RowIndex, Rows]


def insert(
    con: duckdb.DuckDBPyConnection, rows: pa.Table, ids: RowIndex, indexes: Sequence[RowIndex]
) -> tuple[int, list[Note]]:
    """Inserts stamped rows into the table of `ids`, its index of ids: how many were new, and notes for `indexes`."""
    # Which they are is asked about the ids alone: as one statement over whole rows it cost more than the writing.
    new = _new(con, rows, ids)
    if not new.num_rows:
        return 0, []
    con.register("incoming", new)
    try:
        con.execute(f"INSERT INTO lake.main.{ids.table} BY NAME SELECT * FROM incoming")
        return int(new.num_rows), [(index, index.rows_of(con, "incoming")) for index in indexes]
    finally:
        con.unregister("incoming")


def tell(con: duckdb.DuckDBPyConnection, notes: Sequence[Note]) -> None:
    """Tells the indexes what this connection has just committed. What they are not told they read from its files."""
    if not notes:
        return
    try:
        committed = con.execute("FROM ducklake_last_committed_snapshot('lake')").fetchone()
    except duckdb.Error:
        # The rows are in the lake: an error here must not look like a commit that failed.
        return
    for index, rows in notes if committed is not None else ():
        index.note(int(committed[0]), rows)


def _new(con: duckdb.DuckDBPyConnection, rows: pa.Table, ids: RowIndex) -> pa.Table:
    """The rows whose ids are not in the table; of rows with the same id the first."""
    con.register("keys", rows.select(["id"]))
    try:
        times = ids.appends(con, "keys")
        query = f"SELECT DISTINCT id FROM lake.main.{ids.table} WHERE {during(times)} AND id IN (SELECT id FROM keys)"
        seen = set(con.execute(query).to_arrow_table().column(0).to_pylist()) if len(times) else set()
    finally:
        con.unregister("keys")
    if not seen and pc.count_distinct(rows.column("id")).as_py() == rows.num_rows:
        return rows
    places = []
    for place, key in enumerate(rows.column("id").to_pylist()):
        if key not in seen:
            seen.add(key)
            places.append(place)
    return rows.take(pa.array(places, pa.int64()))
