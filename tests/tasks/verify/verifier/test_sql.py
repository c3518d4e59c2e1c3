"""Queries on hidden databases."""

import json
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.sql_exec import SqlExec

SETUPS = [
    "CREATE TABLE people(name TEXT, age INT); INSERT INTO people VALUES ('a', 30), ('b', 20), ('c', 20);",
    "CREATE TABLE people(name TEXT, age INT); INSERT INTO people VALUES ('z', 1);",
]
GOLD = "SELECT name FROM people WHERE age < 25"


def task(gold: str | None = None, **spec: Any) -> Task:
    text = json.dumps({"setups": SETUPS, "gold": GOLD, **spec})
    return Task(id="s", kind="sql", prompt=(), verifier=VerifierSpec(use="sql_exec", spec_json=text), gold=gold)


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (GOLD, "pass", "pass"),
        ("```sql\nselect name from people where not age >= 25 order by name desc;\n```", "pass", "pass"),
        ("WITH y AS (SELECT * FROM people WHERE age < 25) SELECT name FROM y", "pass", "pass"),
        ("SELECT name, age FROM people WHERE age < 25", "fail", "wrong_rows"),
        ("SELECT 'b' UNION ALL SELECT 'c'", "fail", "wrong_rows"),
        ("SELECT name FROM people WHERE age = 20", "fail", "wrong_rows"),
        ("SELECT nme FROM people", "fail", "query_error"),
        ("SELECT load_extension('/x')", "fail", "query_error"),
        ("DROP TABLE people; SELECT 1", "unparsable", "no_query"),
        ("```sql\nDROP TABLE people; SELECT 1\n```", "fail", "query_error"),
        ("ATTACH '/etc/passwd' AS p", "unparsable", "no_query"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", "fail", "query_error"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", "timeout", None),
        ("SELECT zeroblob(1000000000)", "memory", None),
        ("I do not know", "unparsable", "no_query"),
    ],
)
def test_queries(bare: Context, answer: str, kind: str, reason: str | None) -> None:
    verdict = SqlExec(timeout_s=20, cpu_s=1).score(task(), answer, bare)
    assert verdict.kind.value == kind, verdict
    assert reason is None or json.loads(verdict.evidence_json)["reason"] == reason


def test_order_counts_only_where_the_task_says_so(bare: Context) -> None:
    ordered = task(ordered=True)
    ascending, descending = "SELECT name FROM people WHERE age < 25 ORDER BY 1", f"{GOLD} ORDER BY 1 DESC"
    assert SqlExec().score(ordered, ascending, bare).reward == 1.0
    assert SqlExec().score(ordered, descending, bare).reward == 0.0


def test_expected_rows_may_be_given(bare: Context) -> None:
    given = Task(
        id="g", kind="sql", prompt=(),
        verifier=VerifierSpec(use="sql_exec", spec_json=json.dumps({"setups": SETUPS[:1], "expected": [[[3]]]})),
    )  # fmt: skip
    assert SqlExec().score(given, "SELECT count(*) FROM people", bare).reward == 1.0
    assert SqlExec().score(given, "SELECT 2", bare).reward == 0.0


def test_sql_tasks_prove_themselves(bare: Context) -> None:
    assert prove(task(gold=GOLD), bare).ok
    with pytest.raises(RecordError, match="reference query"):
        SqlExec().score(task(setups=["CREATE TABLE t(a)"]), "SELECT 1", bare)
