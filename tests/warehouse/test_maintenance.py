"""Maintenance, checkpoints, rebuilding, and the look at a lake's health."""

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.errors import LakeError, Unavailable, UserError
from schemas.rows import Export
from tests.warehouse.filled import STAMP, fill, make_tasks, make_trajectories
from warehouse.checkpoint import checkpoint, latest
from warehouse.lake import Lake
from warehouse.maintenance import examine, maintain
from warehouse.query import query
from warehouse.rebuild import rebuild

NOW = timedelta(seconds=-1)


def parquet(lake: Lake, table: str) -> list[Path]:
    return sorted((Path(lake.address) / "data" / "main" / table).glob("*.parquet"))


def fill_slowly(lake: Lake, appends: int = 6) -> None:
    for number in range(appends):
        lake.append(STAMP, {"tasks": make_tasks(5, number * 5), "trajectories": make_trajectories(5, number * 5)})


def test_maintenance_merges_and_cleans_without_changing_a_row(lake: Lake) -> None:
    fill_slowly(lake)
    before = lake.sql("select * from trajectories order by id")
    report = maintain(lake, keep_snapshots=NOW, keep_files=NOW)
    assert report.merged_files >= 12
    assert report.expired_snapshots > 0
    assert len(parquet(lake, "tasks")) == 1
    assert lake.sql("select * from trajectories order by id").equals(before)
    assert examine(lake) == []
    # The index of a lake opened before the merge still finds everything, and appends still know what is there.
    assert lake.trajectories([row.id for row in make_trajectories(30)]) == make_trajectories(30)
    assert lake.append(STAMP, {"tasks": make_tasks(31)}) == {"tasks": 1}
    again = maintain(lake, keep_snapshots=NOW, keep_files=NOW)
    assert lake.sql("select count(distinct id) as n, count(*) as all from tasks").to_pylist() == [{"n": 31, "all": 31}]
    assert again.live_files <= report.live_files + 1


def test_recent_snapshots_and_files_stay(lake: Lake) -> None:
    fill_slowly(lake)
    snapshot = lake.snapshot()
    report = maintain(lake)
    assert report.merged_files > 0
    assert (report.expired_snapshots, report.deleted_files, report.deleted_orphans) == (0, 0, 0)
    assert len(parquet(lake, "tasks")) == 7
    with lake.at(snapshot - 2) as earlier:
        assert earlier.sql("select count(*) as n from tasks")["n"].to_pylist() == [20]


def test_a_snapshot_that_an_export_names_is_never_expired(lake: Lake) -> None:
    fill_slowly(lake, appends=3)
    pinned = lake.snapshot()
    export = Export(
        id="e", dataset="d", format="f", path="p", snapshot=pinned, rows=1, manifest_sha256="0", manifest_json="{}"
    )
    lake.append(STAMP, {"exports": [export]})
    fill_slowly(lake, appends=5)
    maintain(lake, keep_snapshots=NOW, keep_files=NOW)
    assert query(lake.address, "select count(*) as n from tasks", at=pinned)["n"].to_pylist() == [15]
    with pytest.raises(UserError, match="no snapshot"):
        query(lake.address, "select 1", at=pinned - 1)


def test_maintenance_refuses_while_batches_are_worked_on(lake: Lake) -> None:
    fill_slowly(lake)
    with Lake.open(lake.address) as other:
        lease = other.leases.acquire("curate", "f", "b")
        assert lease is not None
        with pytest.raises(Unavailable, match="1 batches are being worked on"):
            maintain(lake)
        lease.release()
    assert maintain(lake).merged_files > 0


def test_orphans_of_killed_appends_are_found_and_deleted_only_when_old(lake: Lake) -> None:
    fill(lake)
    orphan = parquet(lake, "tasks")[0].with_name("ducklake-00000000-orphan.parquet")
    orphan.write_bytes(parquet(lake, "tasks")[0].read_bytes())
    assert examine(lake) == []  # young: a commit may be under way
    assert maintain(lake).deleted_orphans == 0
    days_ago = time.time() - 3 * 86400
    os.utime(orphan, (days_ago, days_ago))
    assert [trouble for trouble in examine(lake) if "1 files" in trouble and "belong to no snapshot" in trouble]
    assert maintain(lake).deleted_orphans == 1
    assert not orphan.exists()
    assert lake.tasks([task.id for task in make_tasks(20)]) == make_tasks(20)


def test_examine_tells_lost_files_wrong_sizes_and_repeated_ids(lake: Lake) -> None:
    fill(lake)
    con = lake.cursor()
    con.execute("INSERT INTO plans SELECT * FROM plans")
    con.close()
    parquet(lake, "tasks")[0].unlink()
    with parquet(lake, "verdicts")[0].open("ab") as handle:
        handle.write(b"more")
    troubles = "\n".join(examine_without(lake, "tasks"))
    assert "1 files of the newest snapshot are gone" in troubles
    assert "bytes, the catalog says" in troubles
    assert "plans has 20 repeated ids" in troubles


def examine_without(lake: Lake, table: str) -> list[str]:
    """The troubles, also when a table cannot be read any more."""
    assert not parquet(lake, table)
    return examine(lake)


def test_a_checkpoint_says_all_and_costs_nothing_twice(lake: Lake) -> None:
    fill(lake)
    place = Path(checkpoint(lake))
    state = json.loads(place.read_text())
    tables = {table["name"]: table for table in state["tables"]}
    assert state["snapshot"] == lake.snapshot()
    assert {"name": "id", "type": "VARCHAR"} in tables["trajectories"]["columns"]
    (file,) = tables["trajectories"]["files"]
    assert (Path(lake.address) / "data" / file["path"]).stat().st_size == file["bytes"]
    assert file["rows"] == 20
    assert place.with_suffix(".sqlite").is_file()
    written = place.stat().st_mtime_ns
    assert checkpoint(lake) == str(place)
    assert place.stat().st_mtime_ns == written
    for number in range(4):
        lake.append(STAMP, {"tasks": make_tasks(5, 100 + number * 5)})
        checkpoint(lake)
    folder = Path(lake.address) / "_checkpoint"
    assert len(list(folder.iterdir())) == 6  # the newest three, each with its catalog; nothing half-written
    newest = latest(lake)
    assert newest is not None
    assert newest.snapshot == lake.snapshot()


@pytest.mark.parametrize("backup", ["whole", "torn"])
def test_a_lake_is_rebuilt_from_its_checkpoint(lake: Lake, backup: str) -> None:
    ids = fill(lake)
    before = {
        table: lake.sql(f"select * from {table} order by id")
        for table in ("tasks", "trajectories", "decisions", "runs")
    }
    place = Path(checkpoint(lake)).with_suffix(".sqlite")
    lake.append(STAMP, {"tasks": make_tasks(5, start=900)})
    lake.close()
    (Path(lake.address) / "catalog.sqlite").write_bytes(b"broken" * 4096)
    if backup == "torn":
        place.write_bytes(place.read_bytes()[:5000])
    with pytest.raises(LakeError):
        Lake.open(lake.address)

    report = rebuild(lake.address)

    assert report.way == ("catalog backup" if backup == "whole" else "data files")
    assert (report.rows, report.repeated) == (20 + 20 + 20 + 20 + 14 + 3 + 1, 0)
    assert len(report.came_after) == 1
    assert "tasks" in report.came_after[0]
    assert Path(report.set_aside).read_bytes().startswith(b"broken")
    with Lake.open(lake.address) as rebuilt:
        for table, rows in before.items():
            assert rebuilt.sql(f"select * from {table} order by id").equals(rows)
        assert rebuilt.trajectories(ids) == make_trajectories(20)
        assert rebuilt.sql("select n_kept from funnel")["n_kept"].to_pylist() == [9]
        # What came after is made again by the next run.
        assert rebuilt.append(STAMP, {"tasks": make_tasks(5, start=900)}) == {"tasks": 5}
        assert examine(rebuilt) == []


def test_a_rebuild_keeps_one_row_per_id(lake: Lake) -> None:
    fill(lake)
    con = lake.cursor()
    con.execute("INSERT INTO trajectories SELECT * FROM trajectories")
    con.close()
    Path(checkpoint(lake)).with_suffix(".sqlite").unlink()
    lake.close()
    (Path(lake.address) / "catalog.sqlite").unlink()
    assert rebuild(lake.address).repeated == 20
    with Lake.open(lake.address) as rebuilt:
        assert rebuilt.sql("select count(*) as n from trajectories")["n"].to_pylist() == [20]


def test_nothing_to_rebuild_from_and_files_that_changed(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no checkpoint"):
        rebuild(tmp_path / "nowhere")
    fill(lake)
    checkpoint(lake)
    lake.close()
    parquet(lake, "tasks")[0].write_bytes(b"changed")
    catalog = (Path(lake.address) / "catalog.sqlite").read_bytes()
    with pytest.raises(LakeError, match="has changed since the checkpoint"):
        rebuild(lake.address)
    assert (Path(lake.address) / "catalog.sqlite").read_bytes() == catalog
