"""Importing as a user does it: the format and the calls are found, and no dataset is replaced by accident."""

import json
from pathlib import Path

import pytest

from tests.flows.running import gristmill

pytestmark = pytest.mark.timeout(600)


def log(folder: Path, *commands: str) -> None:
    turns = [{"role": "user", "content": "Look around."}]
    for command in commands:
        call = f"I look.\n<function=bash>\n<parameter=command>{command}</parameter>\n</function>"
        turns += [{"role": "assistant", "content": call}, {"role": "user", "content": "OBSERVATION:\nok"}]
    folder.mkdir()
    (folder / "log.jsonl").write_text(json.dumps({"messages": turns}) + "\n", encoding="utf-8")


def test_calls_in_text_are_read_and_a_second_file_of_that_name_replaces_nothing(tmp_path: Path) -> None:
    log(tmp_path / "a", "ls", "pwd")
    log(tmp_path / "b", "id")
    done = gristmill("import", "a/log.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'calls=["function_xml"]' in done.stderr.replace("\n", "")
    calls = gristmill(
        "query", "select name, arguments_json from tool_calls order by step", "--format", "json", cwd=tmp_path
    )
    assert [json.loads(line) for line in calls.stdout.splitlines()] == [
        {"name": "bash", "arguments_json": '{"command":"ls"}'},
        {"name": "bash", "arguments_json": '{"command":"pwd"}'},
    ]

    again = gristmill("import", "b/log.jsonl", cwd=tmp_path)
    assert again.returncode == 2
    assert "a dataset 'log' already" in again.stderr
    assert "--dataset" in again.stderr
    both = gristmill("import", "guess", "a/log.jsonl", "b/log.jsonl", "--json", cwd=tmp_path)
    assert both.returncode == 0, both.stderr
    assert json.loads(both.stdout)["entries"][0]["n_kept"] == 2

    ids = gristmill("query", "select id from trajectories", "--format", "csv", cwd=tmp_path).stdout.split()[1:]
    told = gristmill("why", ids[0][:12], cwd=tmp_path)
    assert told.returncode == 0
    assert "openai_chat" in told.stdout
    nameless = gristmill("why", "", cwd=tmp_path)
    assert nameless.returncode == 2
    assert "No item was named" in nameless.stderr
    # A mistake costs no start of Prefect.
    assert "starting" not in again.stderr + nameless.stderr
