"""One process: appends, reads, snapshots, and what happens when something is wrong."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from schemas.errors import LakeError, LeaseLost, Unavailable, UserError
from schemas.ids import content_id
from tests.warehouse.filled import STAMP, fill, make_tasks, make_trajectories
from warehouse import migrations
from warehouse.lake import Lake, Stamp
from warehouse.migrations import MIGRATIONS, Migration


def test_the_same_append_twice_adds_nothing_and_makes_no_snapshot(lake: Lake) -> None:
    rows = {"tasks": make_tasks(10), "trajectories": make_trajectories(10)}
    assert lake.append(STAMP, rows) == {"tasks": 10, "trajectories": 10}
    before = lake.snapshot()
    assert lake.append(Stamp("run2", "other", "g" * 32), rows) == {"tasks": 0, "trajectories": 0}
    assert lake.snapshot() == before


def test_repeated_ids_within_one_append_are_stored_once(lake: Lake) -> None:
    task = make_tasks(1)[0]
    assert lake.append(STAMP, {"tasks": [task, task, task]}) == {"tasks": 1}
    assert lake.tasks([task.id]) == [task]


def test_partly_known_rows_add_the_rest(lake: Lake) -> None:
    lake.append(STAMP, {"tasks": make_tasks(10)})
    assert lake.append(STAMP, {"tasks": make_tasks(10, start=6)}) == {"tasks": 6}
    assert lake.append(STAMP, {"tasks": []}) == {"tasks": 0}
    assert lake.sql("select count(distinct id) as n, count(*) as all from tasks").to_pylist() == [{"n": 16, "all": 16}]


def test_reads_keep_the_order_of_the_ids_and_name_a_missing_one(lake: Lake) -> None:
    rows = make_trajectories(30)
    for start in range(0, 30, 10):
        lake.append(STAMP, {"trajectories": rows[start : start + 10]})
    picked = [rows[27], rows[3], rows[14], rows[3]]
    assert lake.trajectories([row.id for row in picked]) == picked
    assert lake.trajectories([]) == []
    with pytest.raises(LakeError, match="1 of 2 ids are not in trajectories, such as nothing"):
        lake.trajectories([rows[0].id, "nothing"])


def test_another_lakes_appends_are_found_at_once(lake: Lake) -> None:
    lake.append(STAMP, {"tasks": make_tasks(5)})
    assert len(lake.tasks([task.id for task in make_tasks(5)])) == 5
    with Lake.open(lake.address) as other:
        other.append(STAMP, {"tasks": make_tasks(5, start=5)})
    assert lake.tasks([task.id for task in make_tasks(10)]) == make_tasks(10)
    assert lake.append(STAMP, {"tasks": make_tasks(10)}) == {"tasks": 0}


def test_queries_aside_see_what_was_appended_since_and_share_an_engine(lake: Lake) -> None:
    for count in (1, 2, 3):
        lake.append(STAMP, {"tasks": make_tasks(count)})
        found = lake.sql_aside("SELECT count(*) AS n, current_setting('memory_limit') AS most FROM tasks", ())
        assert found.to_pylist() == [{"n": count, "most": "152.5 MiB"}]
    lake.sql_aside("CREATE TEMP TABLE kept AS SELECT 1 AS a", ())
    assert lake.sql_aside("SELECT a FROM kept", ())["a"].to_pylist() == [1]


def test_rows_are_stamped(lake: Lake) -> None:
    lake.append(STAMP, {"tasks": make_tasks(1)})
    row = lake.sql("select run_id, operator, fingerprint, created_at from tasks").to_pylist()[0]
    assert tuple(row.values())[:3] == STAMP
    assert row["created_at"].utcoffset().total_seconds() == 0


def test_at_is_the_lake_as_it_was(lake: Lake) -> None:
    fill(lake)
    earlier = lake.snapshot()
    lake.append(STAMP, {"tasks": make_tasks(10, start=500)})
    with lake.at(earlier) as then:
        assert then.snapshot() == earlier
        assert then.sql("select count(*) as n from tasks")["n"].to_pylist() == [20]
        assert then.sql("select count(*) as n from funnel")["n"].to_pylist() == [1]
        assert then.tasks([make_tasks(1)[0].id]) == make_tasks(1)
        with pytest.raises(LakeError, match="not in tasks"):
            then.tasks([make_tasks(1, start=500)[0].id])
        with pytest.raises(LakeError, match="reading only"):
            then.append(STAMP, {"tasks": make_tasks(1, start=900)})
    with pytest.raises(UserError, match="has no snapshot 12345"):
        lake.at(12345)


def test_an_append_under_a_lost_lease_writes_nothing(lake: Lake) -> None:
    lease = lake.leases.acquire("curate", "f", "b")
    assert lease is not None
    assert lake.append(STAMP, {"tasks": make_tasks(5)}, lease) == {"tasks": 5}
    lease.release()
    assert not lease.alive()
    with pytest.raises(LeaseLost):
        lake.append(STAMP, {"tasks": make_tasks(5, start=5)}, lease)
    assert lake.sql("select * from tasks").num_rows == 5


def test_many_threads_share_one_lake(lake: Lake) -> None:
    faults: list[Exception] = []

    def work(number: int) -> None:
        try:
            for part in range(4):
                rows = make_tasks(5, start=(number % 3) * 100 + part * 5)
                lake.append(STAMP, {"tasks": rows})
                assert lake.tasks([row.id for row in rows]) == rows
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert lake.sql("select count(*) as n from tasks")["n"].to_pylist() == [60]


def test_a_lake_from_a_newer_version_is_refused_and_left_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lake)
    newer = (*MIGRATIONS, Migration("9999_from_the_future", lambda con: con.execute("create table future (a int)")))
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", newer)
        with pytest.raises(UserError, match="older than this version"):
            Lake.open(lake.address, read_only=True)
        Lake.open(lake.address).close()
        assert lake.sql("select * from future").num_rows == 0
    before = lake.snapshot()
    for read_only in (False, True):
        with pytest.raises(UserError, match=r"newer version of Gristmill .* 9999_from_the_future") as caught:
            Lake.open(lake.address, read_only=read_only)
        assert "Upgrade" in str(caught.value)
    assert lake.snapshot() == before


def test_views_are_made_anew_when_their_definitions_change(lake: Lake) -> None:
    before = lake.snapshot()
    Lake.open(lake.address).close()
    assert lake.snapshot() == before
    # As an earlier version would have left it.
    with lake.writing() as con:
        con.execute("CREATE OR REPLACE VIEW funnel AS SELECT 1 AS older")
        con.execute("INSERT INTO migrations SELECT max(position) + 1, 'views:older', now() FROM migrations")
    with Lake.open(lake.address, read_only=True) as reader:
        assert reader.sql("select * from funnel").column_names == ["older"]
    with Lake.open(lake.address) as opened:
        assert "n_kept" in opened.sql("select * from funnel").column_names


def test_opening_for_reading_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no lake"):
        Lake.open(tmp_path / "nowhere", read_only=True)
    assert not (tmp_path / "nowhere").exists()


def test_a_reader_cannot_write(lake: Lake) -> None:
    fill(lake)
    with Lake.open(lake.address, read_only=True) as reader:
        assert len(reader.tasks([make_tasks(1)[0].id])) == 1
        with pytest.raises(LakeError, match="reading only"):
            reader.append(STAMP, {"tasks": make_tasks(1)})


def test_a_damaged_catalog_is_a_clear_error(tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake").close()
    (tmp_path / "lake" / "catalog.sqlite").write_bytes(b"not a database at all" * 1000)
    with pytest.raises(LakeError, match="not a readable catalog"):
        Lake.open(tmp_path / "lake")


def test_a_moved_lake_opens_where_it_is(lake: Lake, tmp_path: Path) -> None:
    fill(lake)
    lake.close()
    shutil.move(lake.address, tmp_path / "elsewhere")
    with Lake.open(tmp_path / "elsewhere") as moved:
        assert moved.trajectories([make_trajectories(1)[0].id]) == make_trajectories(1)
        moved.append(STAMP, {"tasks": make_tasks(5, start=300)})
    assert not Path(lake.address).exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(folder)], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_said_so_and_loses_nothing(small_disk: Path) -> None:
    with Lake.open(small_disk / "lake") as lake:
        lake.append(STAMP, {"tasks": make_tasks(5)})
        noise = [
            msgspec.structs.replace(task, id=content_id("noise", task.id), gold=os.urandom(60_000).hex())
            for task in make_tasks(200)
        ]
        with pytest.raises(Unavailable) as caught:
            lake.append(STAMP, {"tasks": noise})
        assert caught.value.reason == "disk_full"
        assert lake.sql("select count(*) as n from tasks")["n"].to_pylist() == [5]
        # What the failed one wrote is gone, so that a small append fits again.
        assert lake.append(STAMP, {"tasks": make_tasks(5, start=5)}) == {"tasks": 5}
        assert lake.tasks([task.id for task in make_tasks(10)]) == make_tasks(10)
