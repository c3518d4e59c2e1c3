"""The queries that the pages of docs/ show are run, on a lake that a small import made."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.flows.running import gristmill

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUERIES = [
    line
    for page in sorted(DOCS.glob("*.md"))
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8"))
    if not language
    for line in block.splitlines()
    if line.startswith("gristmill query ")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose lake holds two imported chats."""
    folder = tmp_path_factory.mktemp("queries")
    turns = [
        [{"role": "user", "content": text}, {"role": "assistant", "content": "4"}] for text in ("2 + 2?", "3 + 1?")
    ]
    lines = [json.dumps({"messages": each}) for each in turns]
    (folder / "logs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = gristmill("import", "openai_chat", "logs.jsonl", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_pages_show_how_to_ask_for_earlier_states() -> None:
    assert any("lake.snapshots()" in line for line in QUERIES)
    assert any("at (version =>" in line for line in QUERIES)


@pytest.mark.parametrize("line", QUERIES)
def test_a_query_of_the_pages_runs(folder: Path, line: str) -> None:
    done = gristmill(*shlex.split(line)[1:], cwd=folder)
    assert done.returncode == 0, done.stderr


def test_an_earlier_state_is_another_one(folder: Path) -> None:
    def count(*more: str, at: str = "") -> int:
        done = gristmill("query", f"select count(*) as n from decisions{at}", "--format", "json", *more, cwd=folder)
        return int(json.loads(done.stdout)["n"])

    assert (count(), count("--at", "6"), count(at=" at (version => 6)")) == (2, 0, 0)
