"""A cron tick fires a real refresh that picks up newly added data only; beside a manual run nothing is done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flows.running import ROOT, gristmill

RECIPE = """
name = "logs"
[[normalize]]
use = "openai_chat"
paths = ["data/*.jsonl"]
dataset = "logs"
[[curate]]
use = "exact"
[[emit]]
use = "trl_sft"
"""


def record(question: str) -> str:
    return (
        json.dumps({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": "Yes."}]})
        + "\n"
    )


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "gristmill", "serve"],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        # As a service manager ends it; a SIGINT that the tests' own shell ignores would be ignored here too.
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def rows(folder: Path, sql: str) -> list[dict[str, object]]:
    done = gristmill("query", sql, "--format", "json", cwd=folder)
    return [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []


def until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_tick_takes_up_only_what_is_new(tmp_path: Path, serving: Callable[[], subprocess.Popen[bytes]]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "logs.toml").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "data" / "a.jsonl").write_text(record("One?") + record("Two?"), encoding="utf-8")
    done = gristmill("deploy", "logs.toml", "--cron", "* * * * *", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    serving()

    finished = "select run_id, created_at from runs where event = 'finished' order by created_at"
    until(lambda: len(rows(tmp_path, finished)) >= 1, 240)
    first = rows(tmp_path, "select id, run_id from trajectories order by id")
    assert len(first) == 2

    (tmp_path / "data" / "b.jsonl").write_text(record("Three?"), encoding="utf-8")
    manual = gristmill("run", "logs.toml", "--json", cwd=tmp_path)
    assert manual.returncode == 0, manual.stderr
    seen = len(rows(tmp_path, finished))
    until(lambda: len(rows(tmp_path, finished)) > seen, 200)
    after = rows(tmp_path, "select id, run_id from trajectories order by id")
    assert len(after) == len({row["id"] for row in after}) == 3
    assert [row for row in after if row in first] == first, "what was there keeps its run: it was not made again"


def test_a_bad_cron_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs.toml").write_text(RECIPE, encoding="utf-8")
    done = gristmill("deploy", "logs.toml", "--cron", "often", cwd=tmp_path)
    assert done.returncode == 2
    assert "not a cron line" in done.stderr


@pytest.mark.slow
def test_serve_without_deployments_says_what_to_do(tmp_path: Path) -> None:
    done = gristmill("serve", cwd=tmp_path)
    assert done.returncode == 2
    assert "gristmill deploy" in done.stderr
