"""Several real processes on one lake: nothing lost, nothing twice, whoever is killed whenever."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warehouse.filled import STAMP, make_tasks
from warehouse.lake import Lake
from warehouse.query import Door

SCRIPT = Path(__file__).with_name("writer.py")


class Workers:
    """Child processes that do not outlive their test."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.running: list[subprocess.Popen[str]] = []

    def start(self, kind: str, *rest: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), kind, self.address, *map(str, rest)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self.running.append(process)
        return process


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(str(tmp_path / "lake"))
    yield made
    for process in made.running:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_three_writers_make_one_lake_and_lose_and_repeat_nothing(workers: Workers) -> None:
    # All three make the lake at once; two of them write the same rows.
    started = [workers.start("append", start, 6) for start in (0, 0, 1000)]
    assert line(started[0]) == ["open"]
    seen = []
    with Door(workers.address) as door:
        while any(process.poll() is None for process in started):
            counts = door.query("select (select count(*) from tasks), (select count(*) from trajectories)")
            seen.append(tuple(column[0].as_py() for column in counts.columns))
            time.sleep(0.05)
    assert [process.wait() for process in started] == [0, 0, 0]
    # A reader sees whole appends only, and never goes back.
    assert all(tasks == trajectories and tasks % 10 == 0 for tasks, trajectories in seen)
    assert seen == sorted(seen)
    with Lake.open(workers.address) as lake:
        for table in ("tasks", "trajectories"):
            found = lake.sql(f"select count(*) as n, count(distinct id) as ids from {table}").to_pylist()
            assert found == [{"n": 120, "ids": 120}]
    added = sum(
        int(row.split()[2]) for process in started for row in process.stdout or () if row.startswith("appended")
    )
    assert added == 120


def test_writers_killed_at_random_moments_leave_a_whole_lake(workers: Workers) -> None:
    shots = random.Random(7)
    with Lake.open(workers.address):
        pass
    for number in range(4):
        process = workers.start("append", number * 100_000, 1000)
        assert line(process) == ["open"]
        for _ in range(shots.randrange(3)):
            line(process)
        time.sleep(shots.random() * 0.08)
        process.kill()
        process.wait()
        told = [int(row.split()[1]) for row in process.stdout or () if row.startswith("appended")]
        with Lake.open(workers.address) as lake:
            # What was reported is there, all or nothing, and the same append again completes it.
            for first in told:
                assert lake.append(STAMP, {"tasks": make_tasks(10, first)}) == {"tasks": 0}
            counts = lake.sql("select (select count(*) from tasks), (select count(*) from trajectories)").to_pylist()
            tasks, trajectories = counts[0].values()
            assert tasks == trajectories
            assert tasks % 10 == 0
            ids = lake.sql("select count(distinct id) as n from tasks")["n"][0].as_py()
            assert ids == tasks


def test_a_killed_process_gives_up_its_lease_at_once(workers: Workers) -> None:
    with Lake.open(workers.address) as lake:
        holder = workers.start("lease", 3600)
        assert line(holder) == ["open"]
        assert line(holder) == ["lease", "True"]
        assert lake.leases.acquire("curate", STAMP.fingerprint, "batch") is None
        assert lake.leases.active() == 1
        holder.kill()
        holder.wait()
        assert lake.leases.active() == 0
        taken = lake.leases.acquire("curate", STAMP.fingerprint, "batch")
        assert taken is not None
        taken.release()


def test_the_same_batch_in_two_processes_is_worked_once(workers: Workers) -> None:
    started = [workers.start("once") for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    worked = [row for process in started for row in process.stdout or () if row.startswith("worked")]
    assert len(worked) == 1
    with Lake.open(workers.address) as lake:
        assert lake.sql("select * from tasks").num_rows == 10


def test_who_asks_while_the_lake_is_being_made_waits_for_it(tmp_path: Path, workers: Workers) -> None:
    for attempt in range(4):
        address = str(tmp_path / f"lake{attempt}")
        made = Workers(address)
        started = made.start("append", 0, 1)
        workers.running.append(started)
        while not (Path(address) / "writer.lock").exists():
            time.sleep(0.001)
        # Asked at another moment of the making each time.
        time.sleep(0.05 * attempt)
        with Door(address) as door:
            assert door.query("select count(*) from tasks").column(0)[0].as_py() >= 0
        assert started.wait(60) == 0
