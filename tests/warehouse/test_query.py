"""The query door: reads everything, does nothing else, whatever is asked."""

import hashlib
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import UserError
from tests.warehouse.filled import STAMP, fill, make_tasks
from warehouse.lake import Lake
from warehouse.query import Door, query

READS = [
    "select count(*) from tasks",
    "from funnel",
    "with a as (select 1 as x) select * from a",
    "with recursive n as (select 1 as i union all select i + 1 from n where i < 5) select max(i) from n",
    "values (1), (2)",
    "describe tasks",
    "show tables",
    "summarize tasks",
    "select * from trajectories, unnest(parents)",
    "select * from tasks union all select * from tasks",
    "select * from lake.snapshots()",
    "select * from lake.main.tasks",
    "select * from information_schema.tables",
    "select * from tasks at (version => 2)",
]

ATTACKS = [
    "copy tasks to '{tmp}/out.csv'",
    "copy (select 1) to '{data}out.csv'",
    "export database '{tmp}/out'",
    "attach '{tmp}/out.db'",
    "detach lake",
    "use memory",
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('/proc/self/environ')",
    "select * from read_parquet('{data}**/*.parquet')",
    "select * from '/etc/passwd'",
    "select * from '{tmp}/other.csv'",
    "describe '{tmp}/other.csv'",
    "select * from 'http://127.0.0.1:9/x.parquet'",
    "select * from glob('/etc/*')",
    "select * from sniff_csv('/etc/passwd')",
    "select * from sqlite_scan('{tmp}/other.sqlite', 't')",
    "select * from sqlite_attach('{tmp}/other.sqlite')",
    "select * from sqlite_query('__ducklake_metadata_lake', 'delete from ducklake_snapshot returning 1')",
    "select * from __ducklake_metadata_lake.ducklake_snapshot",
    "select * from __ducklake_metadata_lake.main.ducklake_snapshot",
    "select * from query('select * from read_text(''/etc/passwd'')')",
    "select * from query_table('tasks')",
    "select * from json_execute_serialized_sql(json_serialize_sql('select 1'))",
    "select * from arrow_scan(1, 2, 3)",
    "select * from duckdb_secrets()",
    "select * from enable_logging()",
    "select (select max(content) from read_text('/etc/passwd'))",
    "select list_transform([1], lambda x: (select max(file) from glob('/*')))",
    "with a as (from read_text('/etc/passwd')) select * from a",
    "select * from ducklake_delete_orphaned_files('lake', dry_run => false, cleanup_all => true)",
    "select * from ducklake_cleanup_old_files('lake', cleanup_all => true)",
    "select * from ducklake_expire_snapshots('lake', older_than => now())",
    "select * from ducklake_merge_adjacent_files('lake')",
    "select * from ducklake_add_data_files('lake', 'tasks', '{tmp}/x.parquet')",
    "call ducklake_merge_adjacent_files('lake')",
    "call lake.merge_adjacent_files()",
    "pragma database_list",
    "pragma enable_profiling",
    "set threads = 1",
    "set enable_external_access = true",
    "reset lock_configuration",
    "install httpfs",
    "load httpfs",
    "select 1; select 2",
    "select 1; drop table tasks",
    "",
    "-- nothing",
    "select getenv('HOME')",
    "create table more (a int)",
    "create temp table more as select 1",
    "create macro m() as 1",
    "insert into tasks select * from tasks",
    "update tasks set kind = 'x'",
    "delete from tasks",
    "drop view funnel",
    "alter table tasks add column x int",
    "prepare p as select 1",
    "begin",
    "checkpoint",
    "vacuum",
    "explain analyze select 1",
    "select * from marked_variable",
    "select nothing_such from tasks",
    "selekt 1",
]


def contents(folder: Path) -> dict[str, str]:
    """Every file of the lake except SQLite's shared-memory index, by its hash."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def test_reads(lake: Lake) -> None:
    fill(lake)
    with Door(lake.address) as door:
        for text in READS:
            assert door.query(text).num_columns > 0, text


def test_every_attack_is_refused_and_changes_nothing(lake: Lake, tmp_path: Path) -> None:
    fill(lake)
    (tmp_path / "other.csv").write_text("a\n1\n")
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("create table t (a)")
    marked_variable = lake.sql("select 1 as secret")  # a Python name that DuckDB would find
    before, beside = contents(Path(lake.address)), sorted(tmp_path.iterdir())
    with Door(lake.address) as door:
        for text in ATTACKS:
            with pytest.raises(UserError):
                door.query(text.format(tmp=tmp_path, data=lake.where.data))
        assert door.query("select count(*) as n from tasks")["n"].to_pylist() == [20]
    assert contents(Path(lake.address)) == before
    assert sorted(tmp_path.iterdir()) == beside
    assert marked_variable.num_rows == 1


def test_the_engine_itself_is_closed_even_if_a_text_slipped_through(lake: Lake, tmp_path: Path) -> None:
    fill(lake)
    with Door(lake.address) as door:
        for text in ("select * from read_text('/etc/passwd')", "delete from tasks", "set threads = 1", "load httpfs"):
            with pytest.raises(Exception, match=r"disabled|read-only|locked"):
                door._con.execute(text)


def test_at_shows_an_earlier_snapshot(lake: Lake) -> None:
    fill(lake)
    earlier = lake.snapshot()
    lake.append(STAMP, {"tasks": make_tasks(5, start=100)})
    assert query(lake.address, "select count(*) as n from tasks")["n"].to_pylist() == [25]
    assert query(lake.address, "select count(*) as n from tasks", at=earlier)["n"].to_pylist() == [20]
    with pytest.raises(UserError, match="no snapshot 9999"):
        query(lake.address, "select 1", at=9999)


def test_a_query_that_runs_too_long_is_stopped(lake: Lake) -> None:
    with Door(lake.address) as door, pytest.raises(UserError, match="took longer"):
        door.query(
            "select count(*) from range(100000000) a, range(100000) b where a.range % 7 = b.range", timeout_s=0.3
        )


def test_no_lake_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no lake"):
        query(tmp_path / "nowhere", "select 1")
    assert not (tmp_path / "nowhere").exists()


def test_answers_while_another_thread_writes(lake: Lake) -> None:
    fill(lake)
    stop = threading.Event()

    def write() -> None:
        start = 1000
        while not stop.is_set():
            lake.append(STAMP, {"tasks": make_tasks(10, start=start)})
            start += 10

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with Door(lake.address) as door:
            counts = [door.query("select count(*) as n from tasks")["n"][0].as_py() for _ in range(20)]
    finally:
        stop.set()
        writer.join()
    assert counts == sorted(counts)
    assert all(count % 10 == 0 for count in counts)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as a terminal's process knows it: one that a shell started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_query_at_once(lake: Lake) -> None:
    fill(lake)
    endless = "select count(*) from range(1000000) a, range(1000000) b where a.range + b.range = -1"
    with Door(lake.address) as door:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            door.query(endless)
        assert time.monotonic() - started < 20
        assert door.query("select count(*) as n from tasks")["n"].to_pylist() == [20]
