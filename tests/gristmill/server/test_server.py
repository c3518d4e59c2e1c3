"""One command's own Prefect server: what it records stays, and it ends with the command."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def import_log(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    chat = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]
    (folder / "log.jsonl").write_text(json.dumps({"id": 1, "messages": chat}) + "\n")
    own = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    command = [sys.executable, "-m", "gristmill", "import", "openai_chat", str(folder / "log.jsonl")]
    return subprocess.run(
        [*command, "--lake", str(folder / "lake")],
        cwd=ROOT,
        env={**own, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def of_home(home: Path) -> list[str]:
    """The processes whose Prefect home this is."""
    wanted = f"PREFECT_HOME={home}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_runs_task_runs_artifacts_and_events_are_recorded_and_no_server_is_left(tmp_path: Path) -> None:
    for _ in range(2):
        done = import_log(tmp_path)
        assert done.returncode == 0, done.stderr
        assert "WARNING" not in done.stderr and "ERROR" not in done.stderr
    home = tmp_path / "lake" / "_prefect"
    assert of_home(home) == []
    with closing(sqlite3.connect(home / "prefect.db")) as con:
        assert con.execute("SELECT state_type FROM flow_run").fetchall() == [("COMPLETED",)] * 2
        assert con.execute("SELECT state_type FROM task_run").fetchall() == [("COMPLETED",)]
        assert con.execute("SELECT key FROM artifact").fetchall() == [("gristmill-log",)] * 2
        # The last thing that a run's client tells; the worker that sends it must not be cut off.
        told = con.execute("SELECT count(*) FROM events WHERE event = 'prefect.artifact.created'").fetchone()
        assert told == (2,)


def test_a_server_that_the_user_names_is_asked_and_none_is_started(tmp_path: Path) -> None:
    done = import_log(tmp_path, PREFECT_API_URL="http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES="0")
    assert done.returncode == 1
    assert "Failed to reach API at http://127.0.0.1:9/api" in done.stderr
    assert not (tmp_path / "lake" / "_prefect").exists()
