"""A large file: killed in the middle it goes on from there, and grown it is read where it is new."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schemas.errors import UserError
from tests.flows.running import ROOT, gristmill
from warehouse.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Some fifteen batches.
RECORDS, MORE, BAD = 30_000, 300, 1234
COMMAND = ("import", "openai_chat", "log.jsonl")


def lines(first: int, last: int) -> str:
    found = []
    for number in range(first, last):
        turns = [
            {"role": "user", "content": f"What is {number}?"},
            {"role": "assistant", "content": f"{number}. " * 60},
        ]
        found.append(json.dumps({"id": f"r{number}", "messages": turns}) if number != BAD else '{"messages": [')
    return "".join(f"{line}\n" for line in found)


def decided(folder: Path) -> int:
    """Records whose decisions are in the lake; 0 before there is one."""
    try:
        with Lake.open(folder / "lake", read_only=True) as lake:
            return int(lake.sql("select count(*) as n from decisions")["n"][0].as_py())
    except UserError:
        return 0


def killed(folder: Path) -> int:
    """Starts an import and kills it when a third is decided; how much then was."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gristmill", *COMMAND],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    while decided(folder) < RECORDS // 3:
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    return decided(folder)


def imported(folder: Path, records: int) -> int:
    """Runs the import to its end; how many records it decided about. One is bad, no other is missing or doubled."""
    done = gristmill(*COMMAND, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "normalize  openai_chat" in done.stderr
    summary = json.loads(done.stdout)
    entry = summary["entries"][0]
    assert (entry["n_in"], entry["n_kept"], entry["n_dead"], entry["n_pending"]) == (records, records - 1, 1, 0)
    with Lake.open(folder / "lake", read_only=True) as lake:
        held = lake.sql("select count(*) as n, count(distinct provenance.record) as ids from trajectories").to_pylist()
        letters = lake.sql("select distinct position, reason from dead_letters").to_pylist()
        own = lake.sql("select count(*) as n from decisions where run_id = ?", params=[summary["run_id"]])
    assert held == [{"n": records - 1, "ids": records - 1}]
    bad = len(lines(0, BAD).encode())
    decided_now = int(own["n"][0].as_py())
    # The bad record is among them only if it was not yet a dead letter.
    assert entry["n_new"] in (decided_now, decided_now + 1)
    assert f"({entry['n_new']} new)" in done.stderr
    assert letters == [{"position": f"line {BAD + 1}, byte {bad}", "reason": "cut_line"}]
    return decided_now


def test_a_killed_import_goes_on_and_a_grown_file_is_read_where_it_is_new(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(lines(0, RECORDS))
    before = killed(tmp_path)
    assert RECORDS // 3 <= before < RECORDS - 1
    assert imported(tmp_path, RECORDS) == RECORDS - 1 - before
    with file.open("a") as grown:
        grown.write(lines(RECORDS, RECORDS + MORE))
    assert imported(tmp_path, RECORDS + MORE) == MORE
