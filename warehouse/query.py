"""The closed query door: users, programs and agents read the lake here, and can do nothing else.

    rows = query("lake", "select * from funnel", at=None)

Three locks, each of which would do for most attacks. The lake is attached read-only. The engine is closed
before the first query: no file outside the data path, no extension, no Python variable, no further setting.
And the text must be one SELECT-like statement whose syntax tree names only tables of the lake and harmless
table functions: `enable_external_access=false` alone lets `sqlite_scan` and `sqlite_attach` open any SQLite
file, and lets COPY write into the data path (tried).
"""

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa

from schemas.errors import UserError
from warehouse import migrations
from warehouse.address import resolve
from warehouse.engine import Attach, connect, quoted
from warehouse.failures import retryable, translated

_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE", "RECURSIVE_CTE_NODE"})
_CATALOGS = frozenset({"", "lake"})
_SCHEMAS = frozenset({"", "main", "lake", "information_schema"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Table functions that read nothing but their arguments, the lake's own tables or its history.
_FUNCTIONS = frozenset(
    {
        "unnest",
        "range",
        "generate_series",
        "repeat",
        "json_each",
        "json_tree",
        "duckdb_tables",
        "duckdb_views",
        "duckdb_columns",
        "ducklake_snapshots",
        "ducklake_current_snapshot",
        "ducklake_table_changes",
        "ducklake_table_insertions",
        "ducklake_table_deletions",
        "ducklake_table_info",
        "snapshots",
        "current_snapshot",
        "table_changes",
        "table_insertions",
        "table_deletions",
        "table_info",
    }
)
_TODO = "Write one SELECT over the lake's tables and views; `show tables` lists them."
_ATTEMPTS = 5


class Door:
    """An open door to one lake. One query at a time; as many doors as wanted, also while others write."""

    def __init__(self, address: str | Path, *, at: int | None = None) -> None:
        """at: a snapshot number, None for the newest. UserError: no lake there, no such snapshot, a newer lake."""
        self.where = resolve(address)
        self._con = migrations.readable(self.where) if at is None else self._at(at)
        try:
            self._close_engine()
        except BaseException:
            self._con.close()
            raise

    def _at(self, snapshot: int) -> duckdb.DuckDBPyConnection:
        if not migrations.exists(self.where):
            raise UserError(f"There is no lake at {self.where.given}.", "", "Make one by running a recipe.")
        try:
            return connect(self.where, Attach(read_only=True, snapshot=snapshot))
        except duckdb.Error as error:
            raise UserError(
                f"The lake {self.where.given} has no snapshot {snapshot}.",
                f"First cause: {str(error).splitlines()[0]}",
                'List them with: gristmill query "select * from lake.snapshots()"',
            ) from error

    def _close_engine(self) -> None:
        for statement in (
            f"SET GLOBAL allowed_directories = [{quoted(self.where.data)}]",
            "SET GLOBAL python_enable_replacements = false",
            "SET GLOBAL allow_community_extensions = false",
            "SET GLOBAL enable_external_access = false",
            "SET GLOBAL lock_configuration = true",
        ):
            self._con.execute(statement)

    def query(self, text: str, *, timeout_s: float | None = None) -> pa.Table:
        """The result of one SELECT-like statement, as Arrow.

        UserError: not one such statement, it reaches outside the lake, it does not fit the tables, or it took
        longer than `timeout_s` seconds.
        """
        self.inspect(text)
        timer = threading.Timer(timeout_s, self._con.interrupt) if timeout_s is not None else None
        if timer is not None:
            timer.start()
        try:
            return self._run(text)
        except duckdb.InterruptException:
            raise UserError(f"The query took longer than {timeout_s} s and was stopped.") from None
        except (duckdb.IOException, duckdb.OperationalError) as error:
            raise translated(error, self.where.given) from error
        except duckdb.Error as error:
            raise UserError(f"The query does not fit: {error}", "", _TODO) from error
        finally:
            if timer is not None:
                timer.cancel()

    def _run(self, text: str) -> pa.Table:
        for attempt in range(_ATTEMPTS):
            try:
                return self._interruptible(text)
            except duckdb.Error as error:
                if attempt == _ATTEMPTS - 1 or not retryable(error):
                    raise
        raise AssertionError("unreachable")

    def _interruptible(self, text: str) -> pa.Table:
        """The result, from another thread: one that is inside of DuckDB hears of Ctrl-C when the query has ended."""
        with ThreadPoolExecutor(1) as aside:
            running = aside.submit(lambda: self._con.execute(text).to_arrow_table())
            try:
                return running.result()
            except KeyboardInterrupt:
                self._con.interrupt()
                raise

    def inspect(self, text: str) -> None:
        """UserError unless `text` is one SELECT-like statement that stays inside the lake."""
        try:
            kinds = [statement.type for statement in self._con.extract_statements(text)]
        except duckdb.Error as error:
            raise UserError(f"The query cannot be read: {error}", "", _TODO) from error
        if len(kinds) != 1:
            raise UserError(f"The query has {len(kinds)} statements.", "The door takes exactly one.", _TODO)
        found = self._con.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
        tree: dict[str, Any] = json.loads(found[0]) if found else {"error": True}
        if kinds[0] != duckdb.StatementType.SELECT or tree["error"]:
            raise UserError(
                f"The query is not a SELECT but {kinds[0].name}.",
                "The door only reads: SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE.",
                _TODO,
            )
        if len(tree["statements"]) != 1:
            raise UserError("The query has more than one statement.", "The door takes exactly one.", _TODO)
        for node in _nodes(tree["statements"][0]):
            refused = _refused(node)
            if refused:
                raise UserError(f"The query may not use {refused}.", "It may read the lake and nothing else.", _TODO)

    def close(self) -> None:
        """Closes the connection."""
        self._con.close()

    def __enter__(self) -> "Door":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def query(address: str | Path, text: str, *, at: int | None = None, timeout_s: float | None = None) -> pa.Table:
    """One query through a door of its own; see `Door`."""
    with Door(address, at=at) as door:
        return door.query(text, timeout_s=timeout_s)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of the syntax tree; iterative, since expressions may nest deeper than Python's stack."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _refused(node: dict[str, Any]) -> str | None:
    """What is wrong with one node of the syntax tree, in words; None when nothing is."""
    kind = node.get("type")
    if not isinstance(kind, str):
        return None
    if kind.endswith("_NODE") and kind not in _NODES:
        return f"a {kind.removesuffix('_NODE').replace('_', ' ').lower()} inside it"
    if kind == "TABLE_FUNCTION":
        function = node["function"]
        name = str(function["function_name"]).lower()
        if name not in _FUNCTIONS or function["catalog"] not in _CATALOGS or function["schema"] not in _SCHEMAS:
            return f"the table function '{name}'"
    if kind == "BASE_TABLE":
        name = node["table_name"]
        inside = node["catalog_name"].lower() in _CATALOGS and node["schema_name"].lower() in _SCHEMAS
        if not inside or not _NAME.fullmatch(name):
            return f"'{name}' as a table"
    if kind == "SHOW_REF" and (
        node.get("catalog_name", "") not in _CATALOGS or node.get("schema_name", "") not in _SCHEMAS
    ):
        return f"the tables of '{node['catalog_name'] or node['schema_name']}'"
    return None
