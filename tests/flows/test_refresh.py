"""A refresh end to end with a real teacher server: twice, at once, killed; and asked while it writes."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.running import ROOT, Peer, gristmill

# Each starts Prefect several times, 5 to 30 s each on a busy machine.
pytestmark = pytest.mark.timeout(900)

Start = Callable[..., Peer]
Recipe = Callable[..., Path]


def shards(out: Path) -> dict[str, str]:
    """sha256 of every file below `out`."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    assert files, f"nothing was written to {out}"
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def rows(folder: Path, sql: str) -> list[dict[str, object]]:
    done = gristmill("query", sql, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def counts(folder: Path) -> dict[str, object]:
    tables = ("tasks", "trajectories", "token_spans", "verdicts", "step_labels", "decisions", "pairs", "exports",
              "requests", "dead_letters", "plans", "signatures")  # fmt: skip
    sql = " union all ".join(f"select '{t}' as name, count(*) as n, count(distinct id) as ids from {t}" for t in tables)
    return {str(row["name"]): (row["n"], row["ids"]) for row in rows(folder, sql)}


def run(folder: Path, recipe: Path) -> dict[str, object]:
    done = gristmill("run", str(recipe), "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


def start_run(folder: Path, recipe: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "gristmill", "run", str(recipe), "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the whole session, as a power cut would: Prefect's server and the jails included."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_second_run_asks_nothing_adds_nothing_and_writes_the_same_bytes(
    tmp_path: Path, peer: Start, recipe: Recipe
) -> None:
    teacher = peer()
    file = recipe(teacher.url)
    first = run(tmp_path, file)
    asked, written, held = teacher.answered(), shards(tmp_path / "out"), counts(tmp_path)
    assert asked == first["calls"]["calls"] > 0  # type: ignore[index, operator]

    second = run(tmp_path, file)
    assert teacher.answered() == asked
    assert second["calls"] == {} or second["calls"]["calls"] == 0  # type: ignore[index]
    assert shards(tmp_path / "out") == written
    assert counts(tmp_path) == held
    assert all(n == ids for n, ids in held.values()), held  # type: ignore[misc]

    funnel = rows(tmp_path, "select * from funnel")
    assert {row["stage"] for row in funnel} >= {"synthesize", "rollout", "verify", "curate", "emit", "pair"}
    for row in funnel:
        assert row["n_in"] == row["n_kept"] + row["n_dropped"] + row["n_dead"] + row["n_pending"], row  # type: ignore[operator]
    kinds = rows(
        tmp_path,
        "select t.kind, count(*) as n from verdicts v join trajectories j on j.id = v.trajectory_id "
        "join tasks t on t.id = j.task_id where v.kind = 'pass' group by all",
    )
    assert {row["kind"] for row in kinds} == {"arithmetic", "code"}

    # The folder is deleted: the ledger's word is not taken for it, it is written again, the same.
    shutil.rmtree(tmp_path / "out" / "sft")
    run(tmp_path, file)
    assert shards(tmp_path / "out") == written
    assert counts(tmp_path) == held


def test_the_same_recipe_started_twice_at_once_does_its_work_once(tmp_path: Path, peer: Start, recipe: Recipe) -> None:
    teacher = peer(0.05)
    file = recipe(teacher.url)
    both = [start_run(tmp_path, file), start_run(tmp_path, file)]
    # Meanwhile the lake answers questions.
    while not (tmp_path / "lake" / "catalog.sqlite").exists():
        time.sleep(0.2)
    asked_meanwhile = 0
    while any(process.poll() is None for process in both):
        done = gristmill("query", "select count(*) as n from trajectories", "--format", "csv", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        asked_meanwhile += 1
    assert [process.returncode for process in both] == [0, 0]
    assert asked_meanwhile > 0
    planned = rows(tmp_path, "select sum(n_in) as n from funnel where stage = 'rollout' group by run_id")
    assert teacher.answered() == planned[0]["n"]
    held = counts(tmp_path)
    assert all(n == ids for n, ids in held.values()), held  # type: ignore[misc]


def killed_as_unkilled(tmp_path: Path, peer: Start, recipe: Recipe, kills: int, seed: int) -> None:
    teacher = peer(0.02)
    folder = tmp_path / "whole"
    folder.mkdir()
    file = recipe(teacher.url, out="whole/out", samples=6, count=8)
    run(folder, file)
    wanted, asked = shards(folder / "out"), teacher.answered()
    teacher.log.unlink()

    folder = tmp_path / "killed"
    folder.mkdir()
    file = recipe(teacher.url, out="killed/out", samples=6, count=8)
    chance = random.Random(seed)
    for _ in range(kills):
        process = start_run(folder, file)
        time.sleep(chance.uniform(1.0, 22.0))
        if process.poll() is None:
            kill(process)
        else:
            assert process.returncode == 0
    run(folder, file)
    assert shards(folder / "out") == wanted
    held = counts(folder)
    assert all(n == ids for n, ids in held.values()), held  # type: ignore[misc]
    # What a kill may cost is the calls in flight, and the client has at most 64 of them per endpoint.
    assert asked <= teacher.answered() <= asked + 64 * kills
    # A key answered twice was in flight at a kill; every other was paid once.
    lines = teacher.log.read_text(encoding="utf-8").splitlines()
    assert len(set(lines)) == asked


def test_killed_anywhere_then_run_again_gives_the_same_shards(tmp_path: Path, peer: Start, recipe: Recipe) -> None:
    killed_as_unkilled(tmp_path, peer, recipe, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_killed_at_twenty_random_moments(tmp_path: Path, peer: Start, recipe: Recipe) -> None:
    killed_as_unkilled(tmp_path, peer, recipe, kills=20, seed=2)
