"""What goes wrong around a run: a clear word, nothing lost, and the next run goes on from there."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.flows.running import ROOT, Peer, gristmill

# Each starts Prefect two or three times, 5 to 30 s each on a busy machine.
pytestmark = pytest.mark.timeout(900)


def summary(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    return found


def test_an_endpoint_that_is_down_leaves_work_that_the_next_run_does(
    tmp_path: Path, peer: Callable[..., Peer], recipe: Callable[..., Path]
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    file = recipe(f"http://127.0.0.1:{closed}/v1", samples=2, count=2)
    down = gristmill("run", str(file), "--json", cwd=tmp_path)
    assert down.returncode in (0, 3), down.stderr
    rollout = next(entry for entry in summary(down.stdout)["entries"] if entry["stage"] == "rollout")  # type: ignore[union-attr, attr-defined]
    assert rollout["n_kept"] == 0
    assert rollout["n_dead"] + rollout["n_pending"] == rollout["n_in"] > 0
    assert "Traceback" not in down.stderr

    # The same work at a teacher that answers: the tasks are there, the rollouts are made.
    up = peer()
    again = gristmill("run", str(recipe(up.url, samples=2, count=2)), "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    rollout = next(entry for entry in summary(again.stdout)["entries"] if entry["stage"] == "rollout")  # type: ignore[union-attr, attr-defined]
    assert rollout["n_kept"] == rollout["n_in"] == up.answered()


def everything_in(path: Path) -> str:
    """All that a file says, Parquet unpacked and SQLite dumped."""
    if path.suffix == ".parquet":
        return str(pq.read_table(path).to_pylist())
    raw = path.read_bytes()
    if raw.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(path)) as con:
            return "\n".join(con.iterdump()) + raw.decode("utf-8", "replace")
    return raw.decode("utf-8", "replace")


def test_a_missing_key_is_named_and_a_given_one_is_stored_nowhere(
    tmp_path: Path, peer: Callable[..., Peer], recipe: Callable[..., Path]
) -> None:
    teacher = peer()
    file = recipe(teacher.url, samples=1, count=1)
    file.write_text(file.read_text().replace('model = "peer"', 'model = "peer"\nkey_env = "GRIST_TEST_KEY"'))
    missing = gristmill("run", str(file), cwd=tmp_path, env={"GRIST_TEST_KEY": ""})
    assert missing.returncode == 2, missing.stdout + missing.stderr
    assert "GRIST_TEST_KEY" in missing.stderr
    assert "Traceback" not in missing.stderr

    marked = "sk-marked-7f3a9b2c5d8e1f60"  # made up for this test
    done = gristmill("run", str(file), cwd=tmp_path, env={"GRIST_TEST_KEY": marked})
    assert done.returncode == 0, done.stderr
    assert marked not in done.stdout + done.stderr
    # The endpoint says the key back in every answer: the answers are everywhere, the key is nowhere.
    holding, echoes = [], 0
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        text = everything_in(path)
        holding += [str(path)] if marked in text or marked[3:] in text else []
        echoes += "called with" in text
    assert holding == []
    assert echoes >= 3, "requests, trajectories and shards hold the answers"


def test_corrupt_lines_become_dead_letters_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = {"messages": [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Hi."}]}
    lines = [json.dumps(good).encode(), b'{"messages": [', b"\xff\xfe", b'{"messages": 1e400}', b"[1, 2]"]
    (tmp_path / "logs.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    done = gristmill("import", "openai_chat", "logs.jsonl", "--json", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    (entry,) = summary(done.stdout)["entries"]  # type: ignore[misc]
    assert (entry["n_in"], entry["n_kept"], entry["n_dead"]) == (5, 1, 4)
    letters = json.loads(gristmill("failed", "--json", cwd=tmp_path).stdout)
    assert len(letters) == 4
    assert all(letter["reason"] and "line" in letter["position"] for letter in letters)


def test_a_lake_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "logs.jsonl").write_text('{"messages": [{"role": "user", "content": "Hi?"}]}\n', encoding="utf-8")
    assert gristmill("import", "openai_chat", "logs.jsonl", cwd=tmp_path).returncode == 0
    future = "insert into migrations select * replace ('9999_from_the_future' as name) from migrations limit 1"
    code = f"from warehouse.lake import Lake; Lake.open('lake').cursor().execute({future!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    before = (tmp_path / "lake" / "catalog.sqlite").stat().st_mtime_ns
    refused = gristmill("import", "openai_chat", "logs.jsonl", cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert "newer" in refused.stderr
    assert (tmp_path / "lake" / "catalog.sqlite").stat().st_mtime_ns == before
    assert sqlite3.connect(tmp_path / "lake" / "catalog.sqlite").execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_path_that_cannot_be_written_is_named_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    (tmp_path / "lake").mkdir()
    # A file where a folder should be: the same refusal for root, whom a read-only folder does not stop.
    (tmp_path / "lake" / "_prefect").write_text("")
    ended = gristmill("import", "openai_chat", "log.jsonl", cwd=tmp_path)
    assert ended.returncode == 1
    assert "_prefect" in ended.stderr and "fault" not in ended.stderr, ended.stderr


def test_a_damaged_catalog_is_no_fault_of_ours(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.sqlite").write_bytes(b"no database at all" * 100)
    ended = gristmill("funnel", cwd=tmp_path)
    assert ended.returncode == 1
    assert "catalog.sqlite" in ended.stderr and "doctor" in ended.stderr and "fault" not in ended.stderr, ended.stderr
