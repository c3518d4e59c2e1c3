"""Where rows are is known whoever wrote them, and whatever maintenance did to the files and snapshots meanwhile."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.warehouse.filled import STAMP, make_tasks
from warehouse.index import RowIndex
from warehouse.lake import Lake
from warehouse.maintenance import maintain

STEP = st.tuples(st.sampled_from(["append", "look", "maintain"]), st.booleans(), st.integers(0, 12))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=2, max_size=8))
def test_two_writers_and_maintenance(steps: list[tuple[str, bool, int]], empty_lake: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(empty_lake, folder)
    tasks = make_tasks(20)
    written: set[str] = set()
    with Lake.open(folder) as one, Lake.open(folder) as other:
        for what, first, start in steps:
            lake = one if first else other
            if what == "append":
                batch = tasks[start : start + 6]
                fresh = {task.id for task in batch} - written
                assert lake.append(STAMP, {"tasks": batch}) == {"tasks": len(fresh)}
                written |= fresh
            elif what == "maintain":
                # Expires every snapshot but the newest, also those that the other has not seen yet.
                maintain(lake, keep_snapshots=timedelta(0), keep_files=timedelta(days=1))
            found = lake.find("tasks", "id", [task.id for task in tasks], ["id"])["id"].to_pylist()
            assert sorted(found) == sorted(written)
        for lake in (one, other):
            found = lake.find("tasks", "id", [task.id for task in tasks], ["id"])["id"].to_pylist()
            assert sorted(found) == sorted(written)


def test_own_appends_are_not_read_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = make_tasks(30)
    lake.append(STAMP, {"tasks": tasks[:10]})
    read: list[str] = []
    inserted = RowIndex._inserted
    monkeypatch.setattr(RowIndex, "_inserted", lambda *given: (read.append(given[0].table), inserted(*given))[1])
    lake.append(STAMP, {"tasks": tasks[5:20]})
    assert lake.append(STAMP, {"tasks": tasks[:25]}) == {"tasks": 5}
    assert not read
    with Lake.open(lake.address) as other:
        other.append(STAMP, {"tasks": tasks[25:]})
    assert len(lake.find("tasks", "id", [task.id for task in tasks])) == 30
    assert read == ["tasks"]


def test_nothing_found_has_the_columns_that_something_has(lake: Lake) -> None:
    nothing = lake.find("tasks", "id", ["unknown"], ["id", "kind"])
    lake.append(STAMP, {"tasks": make_tasks(1)})
    something = lake.find("tasks", "id", [make_tasks(1)[0].id], ["id", "kind"])
    assert (len(nothing), len(something)) == (0, 1)
    assert nothing.schema.equals(something.schema)
    assert lake.find("tasks", "id", ["unknown"]).schema.names == lake.find("tasks", "id", ["also"]).schema.names
