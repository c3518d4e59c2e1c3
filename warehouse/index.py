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
Rows = tuple[Hashes, Times]


class RowIndex:
    """The index of one column of one table. Safe for threads; connections are the caller's."""

    def __init__(self, table: str, column: str) -> None:
        self.table, self.column = table, column
        self._lock = threading.Lock()
        self._runs: list[Rows] = []
        # The newest snapshot that is in here; before the first look there is none.
        self._snapshot: int | None = None
        self._suffix = ""
        self._own: dict[int, Rows] = {}

    def appends(self, con: duckdb.DuckDBPyConnection, relation: str, column: str = "id") -> Times:
        """The times (microseconds since the epoch, sorted) of all appends that may hold keys of a relation's column."""
        wanted = con.execute(f'SELECT DISTINCT hash("{column}") AS h FROM {relation}').fetchnumpy()["h"]
        with self._lock:
            self._refresh(con)
            found = [_matches(keys, times, np.asarray(wanted, dtype=np.uint64)) for keys, times in self._runs]
        return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)

    def rows_of(self, con: duckdb.DuckDBPyConnection, relation: str) -> Rows:
        """What `note` takes of the rows of a relation."""
        rows = con.execute(f"{self._select()} FROM {relation}").fetchnumpy()
        return np.asarray(rows["h"], dtype=np.uint64), np.asarray(rows["t"], dtype=np.int64)

    def note(self, snapshot: int, rows: Rows) -> None:
        """Remembers what this process has committed as `snapshot`, which then needs not be read back from its file."""
        with self._lock:
            if self._snapshot is not None and snapshot > self._snapshot:
                self._own[snapshot] = rows

    def _refresh(self, con: duckdb.DuckDBPyConnection) -> None:
        # The catalog is asked before the table: what is committed in between is at worst found twice.
        changes = self._changes(con)
        if changes is None:
            self._load(con)
            return
        read = [number for number, changed in changes if changed and number not in self._own]
        if read:
            try:
                self._add(self._inserted(con, read[0], read[-1]))
            except duckdb.Error:
                # Maintenance may have expired a snapshot since the question.
                self._load(con)
                return
        for number, changed in changes:
            rows = self._own.pop(number, None)
            if changed and rows is not None:
                self._add(rows)
        if changes:
            self._snapshot = changes[-1][0]

    def _changes(self, con: duckdb.DuckDBPyConnection) -> list[tuple[int, bool]] | None:
        """The snapshots since the last look, and whether each may have changed the table; None when one has expired."""
        if self._snapshot is None:
            return None
        query = f"SELECT snapshot_id, changes_made FROM {META}.ducklake_snapshot_changes WHERE snapshot_id > ?"
        found = sorted(con.execute(query, [self._snapshot]).fetchall())
        if found and found[-1][0] - self._snapshot != len(found):
            return None
        return [(int(number), self._may_hold(str(made))) for number, made in found]

    def _may_hold(self, made: str) -> bool:
        """Whether a snapshot's changes ("inserted_into_table:3,…") name the table."""
        return any(change.endswith(self._suffix) for change in made.split(","))

    def _load(self, con: duckdb.DuckDBPyConnection) -> None:
        query = (
            f"SELECT (SELECT max(snapshot_id) FROM {META}.ducklake_snapshot), max(table_id) FROM {META}.ducklake_table"
        )
        row = con.execute(f"{query} WHERE table_name = ? AND end_snapshot IS NULL", [self.table]).fetchone()
        assert row is not None
        self._runs, self._own = [], {}
        self._add(self.rows_of(con, f"lake.main.{self.table}"))
        self._snapshot, self._suffix = int(row[0]), f":{row[1]}"

    def _select(self) -> str:
        return f'SELECT hash("{self.column}") AS h, epoch_us(created_at) AS t'

    def _inserted(self, con: duckdb.DuckDBPyConnection, first: int, last: int) -> Rows:
        """What was inserted from one snapshot to another, both of which the catalog still has."""
        return self.rows_of(con, f"ducklake_table_insertions('lake', 'main', '{self.table}', {first}, {last})")

    def _add(self, rows: Rows) -> None:
        """One more sorted run; runs are merged so that each is at most half its forerunner, so there are few."""
        keys, times = rows
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
