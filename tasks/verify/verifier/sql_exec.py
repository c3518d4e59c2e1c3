"""Runs a query on hidden databases and compares the rows with the reference query's (SQLite).

A task's specification (JSON):

    {"setups": ["CREATE TABLE t(a); INSERT INTO t VALUES (1), (2);"], "gold": "SELECT sum(a) FROM t", "ordered": false}

Several setups keep a query from being right by accident. `expected` (rows per setup) may stand in place of `gold`.
The database lives in a fresh jail for each run; only rows come out, and they are compared outside.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemas.errors import RecordError
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import VerdictKind
from tasks.sandbox.results import Call, CallResult, Limits, RunKind
from tasks.verify.answers.compare import equal
from tasks.verify.answers.extract import sql_text
from tasks.verify.base import Judgement, failed, infrastructure, passed, spec_of, unparsable
from tasks.verify.execution import ExecutionVerifier
from tasks.verify.ranges import Tolerance

if TYPE_CHECKING:
    from tasks.context import Context

_KINDS = {RunKind.TIMEOUT: VerdictKind.TIMEOUT, RunKind.CPU: VerdictKind.TIMEOUT, RunKind.MEMORY: VerdictKind.MEMORY}
_PROGRAM = """
import sqlite3

def plain(value):
    return {"bytes": value.hex()} if isinstance(value, bytes) else value

def run(setup, query, most):
    connection = sqlite3.connect(":memory:")
    connection.executescript(setup)
    try:
        cursor = connection.execute(query)
        rows = cursor.fetchmany(most + 1)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    if len(rows) > most:
        return {"error": f"more than {most} rows"}
    return {"rows": [[plain(value) for value in row] for row in rows], "columns": len(cursor.description or [])}
"""


class Spec(Base, frozen=True):
    """The databases, and the query or the rows that are right for each."""

    setups: list[str]
    gold: str = ""
    expected: list[list[list[Any]]] = []
    ordered: bool = False
    tolerance: Tolerance | None = None


class SqlExec(ExecutionVerifier, frozen=True, kw_only=True):
    """The same rows as the reference on every database; their order matters only where the task says so.

    timeout_s, cpu_s: for one query. most_rows: a query that gives more is wrong.
    """

    timeout_s: float = 10.0
    cpu_s: float = 5.0
    most_rows: int = 10_000

    def subject(self, task: Task, completion: str) -> str | None:
        """The query."""
        return sql_text(completion)

    def environment(self, task: Task, ctx: "Context") -> str:
        """Interpreter, packages, backend and mode of the sandbox."""
        return f"{ctx.sandbox.mode}/{ctx.sandbox.version()}"

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Extracts the query, runs it and the reference on every database, compares outside."""
        spec = spec_of(task, Spec)
        wanted_each = len(spec.expected) == len(spec.setups) or (spec.gold and not spec.expected)
        if not spec.setups or not wanted_each:
            raise RecordError("bad_spec", "sql_exec: setups, and gold or one expected result for each, are needed")
        query = sql_text(completion)
        if query is None:
            return unparsable("no_query")
        got = self._run(spec, query, ctx)
        bad = next((each for each in got if each.kind is RunKind.INFRASTRUCTURE), None)
        if bad is not None:
            return infrastructure(bad.reason, bad.detail)
        wanted = spec.expected or self._reference(spec, ctx)
        evidence: dict[str, Any] = {"query": query[:500], "databases": len(spec.setups)}
        for index, (rows, found) in enumerate(zip(wanted, got, strict=True)):
            at = {**evidence, "database": index}
            if found.kind is not RunKind.OK:
                kind = _KINDS.get(found.kind, VerdictKind.FAIL)
                return Judgement(kind, 0.0, found.reason, {**at, "detail": found.detail})
            if "error" in found.value:
                return failed("query_error", {**at, "detail": found.value["error"]})
            if not equal(rows, found.value["rows"], spec.tolerance, unordered=not spec.ordered):
                return failed("wrong_rows", {**at, "rows": len(found.value["rows"]), "wanted": len(rows)})
        return passed(evidence)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, and queries that look at no table."""
        names = {"one": "SELECT 1", "null": "SELECT NULL", "no_rows": "SELECT 1 WHERE 0", "zero": "SELECT 0"}
        return {"empty": "", **{name: f"```sql\n{query}\n```" for name, query in names.items()}}

    def _run(self, spec: Spec, query: str, ctx: "Context") -> tuple[CallResult, ...]:
        limits = Limits(wall_s=self.timeout_s, cpu_s=self.cpu_s)
        calls = [Call(entry="run", args=[setup, query, self.most_rows]) for setup in spec.setups]
        return ctx.sandbox.call_functions(_PROGRAM, calls, limits).results

    def _reference(self, spec: Spec, ctx: "Context") -> list[list[list[Any]]]:
        rows = []
        for found in self._run(spec, spec.gold, ctx):
            if found.kind is not RunKind.OK or "error" in found.value:
                raise RecordError("bad_spec", f"sql_exec: the reference query fails: {found.value or found.detail}")
            rows.append(found.value["rows"])
        return rows
