# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""Where rows are: a per-process index from a key column to the appends that hold the key.

Ids are hashes, so no file's minimum and maximum ever rules a file out, and finding 256 trajectories among a
million would read every file. All rows of one append share one `created_at`, and that does rule files out. So
this index maps the hash of a key to the `created_at` of the rows that have it: 16 bytes a row, kept sorted, and
brought up to date with what each new snapshot inserted. Without it the cost of an append and of a read grew
with the table (measured: 256 trajectories of 100,000 took 0.75 s, with it 0.03 s).

A hash collision costs a file read for nothing; the query itself always compares the keys.
"""

import threading

import duckdb
import numpy as np
import numpy.typing as npt

from warehouse.files import META

Hashes = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]


class RowIndex:
    """The index of one column of one table. Safe for threads; connections are the caller's."""

    def __init__(self, table: str, column: str) -> None:
        self.table, self.column = table, column
        self._lock = threading.Lock()
        self._runs: list[tuple[Hashes, Times]] = []
        self._snapshot = -1

    def appends(self, con: duckdb.DuckDBPyConnection, relation: str, column: str = "id") -> Times:
        """The times (microseconds since the epoch, sorted) of all appends that may hold keys of a relation's column."""
        wanted = con.execute(f'SELECT DISTINCT hash("{column}") AS h FROM {relation}').fetchnumpy()["h"]
        with self._lock:
            self._refresh(con)
            found = [_matches(keys, times, np.asarray(wanted, dtype=np.uint64)) for keys, times in self._runs]
        return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)

    def _refresh(self, con: duckdb.DuckDBPyConnection) -> None:
        current = _current(con)
        if current == self._snapshot:
            return
        fresh = self._inserted(con, current) if 0 <= self._snapshot < current else None
        if fresh is None:
            self._runs = []
            fresh = con.execute(f"{self._select()} FROM {self.table}").fetchnumpy()
        self._add(np.asarray(fresh["h"], dtype=np.uint64), np.asarray(fresh["t"], dtype=np.int64))
        self._snapshot = current

    def _select(self) -> str:
        return f'SELECT hash("{self.column}") AS h, epoch_us(created_at) AS t'

    def _inserted(self, con: duckdb.DuckDBPyConnection, current: int) -> "dict[str, npt.NDArray[np.generic]] | None":
        """What was inserted since the last look; None when that snapshot has expired."""
        first = self._snapshot + 1
        # Asked beforehand: an error would abort the transaction that the caller may be in.
        there = con.execute(f"SELECT count(*) FROM {META}.ducklake_snapshot WHERE snapshot_id = ?", [first]).fetchone()
        if not there or not there[0]:
            return None
        return con.execute(  # type: ignore[no-any-return]
            f"{self._select()} FROM ducklake_table_insertions('lake', 'main', ?, ?, ?)", [self.table, first, current]
        ).fetchnumpy()

    def _add(self, keys: Hashes, times: Times) -> None:
        """One more sorted run; runs are merged so that each is at most half its forerunner, so there are few."""
        if not len(keys):
            return
        self._runs.append(_sorted(keys, times))
        while len(self._runs) > 1 and len(self._runs[-1][0]) * 2 > len(self._runs[-2][0]):
            (keys, times), (more_keys, more_times) = self._runs[-2:]
            self._runs[-2:] = [_sorted(np.concatenate([keys, more_keys]), np.concatenate([times, more_times]))]


def _sorted(keys: Hashes, times: Times) -> tuple[Hashes, Times]:
    order = np.argsort(keys, kind="stable")
    return keys[order], times[order]


def _matches(keys: Hashes, times: Times, wanted: Hashes) -> Times:
    """The times of all rows whose key is among the wanted ones; a key may have many rows."""
    first = np.searchsorted(keys, wanted, side="left")
    counts = np.searchsorted(keys, wanted, side="right") - first
    if not counts.any():
        return np.empty(0, dtype=np.int64)
    starts = np.repeat(first, counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.unique(times[starts + within])


def _current(con: duckdb.DuckDBPyConnection) -> int:
    row = con.execute("SELECT * FROM ducklake_current_snapshot('lake')").fetchone()
    assert row is not None
    return int(row[0])


def during(times: Times) -> str:
    """An SQL condition on `created_at` that admits exactly these appends' rows; DuckLake skips all other files."""
    if not len(times):
        return "false"
    stamps = [f"TIMESTAMPTZ '{text}+00'" for text in np.datetime_as_string(times.astype("datetime64[us]"))]
    if len(stamps) > _MANY:
        return f"created_at BETWEEN {stamps[0]} AND {stamps[-1]}"
    return f"created_at IN ({', '.join(stamps)})"


# Beyond so many appends a list costs more to plan than it saves.
_MANY = 400
