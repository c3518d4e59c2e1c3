"""A run drawn as a page: its counts are the funnel's, and what the lake holds is text there, never markup."""

import json
import shutil
from pathlib import Path

import pytest

from tests.flows.running import gristmill

RECIPE = """
name = "logs"
[[normalize]]
use = "openai_chat"
paths = ["a.jsonl"]
dataset = "logs"
[[curate]]
use = "exact"
"""
ASKED = "<script>alert('asked')</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with one run: three records, of which two are the same and one cannot be read."""
    folder = tmp_path_factory.mktemp("logs")
    turns = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "Yes & no."}]
    lines = [json.dumps({"messages": turns, "n": number}) for number in range(2)]
    (folder / "a.jsonl").write_text("\n".join([*lines, '{"messages": 7}']) + "\n", encoding="utf-8")
    (folder / "logs.toml").write_text(RECIPE, encoding="utf-8")
    done = gristmill("run", "logs.toml", "--json", cwd=folder)
    assert done.returncode in (0, 3), done.stderr
    return folder


def test_the_page_holds_the_funnel_and_examples(folder: Path) -> None:
    done = gristmill("report", cwd=folder)
    assert done.returncode == 0, done.stderr
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "kept 2, dead 1" in page and "kept 1, dropped 1 · duplicate 1, ok 1" in page
    assert "curate · exact · <b>duplicate</b>" in page
    dropped = json.loads(
        gristmill(
            "query", "select item_id from decisions where decision = 'drop'", "--format", "json", cwd=folder
        ).stdout
    )
    assert f"gristmill why {dropped['item_id'][:12]}" in page
    assert not list(folder.glob(".report*")), "the temporary page is gone"


def test_text_of_the_lake_is_no_markup(folder: Path) -> None:
    assert gristmill("report", "--out", "pages/run.html", cwd=folder).returncode == 0
    page = (folder / "pages" / "run.html").read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;alert" in page and "Yes &amp; no." in page
    assert "default-src 'none'" in page, "and nothing could be loaded from elsewhere"


def test_what_a_later_run_keeps_is_not_shown_as_dropped(folder: Path, tmp_path: Path) -> None:
    """A decision about a set holds for that set only: alone, the duplicate is none."""
    shutil.copytree(folder, tmp_path / "logs")
    lines = (folder / "a.jsonl").read_text(encoding="utf-8").splitlines()
    query = "select t.provenance.record as line from decisions d join trajectories t on t.id = d.item_id "
    query += "where d.decision = 'drop'"
    (dropped,) = gristmill("query", query, "--format", "json", cwd=folder).stdout.splitlines()
    (tmp_path / "logs" / "a.jsonl").write_text(lines[int(json.loads(dropped)["line"]) - 1] + "\n", encoding="utf-8")
    assert gristmill("run", "logs.toml", "--json", cwd=tmp_path / "logs").returncode == 0
    assert gristmill("report", cwd=tmp_path / "logs").returncode == 0
    page = (tmp_path / "logs" / "report.html").read_text(encoding="utf-8")
    assert "kept 1 · ok 1" in page and "Dropped, for example" not in page


@pytest.mark.parametrize("out", ["", ".", "/"])
def test_a_place_that_is_no_file_is_refused(folder: Path, out: str) -> None:
    done = gristmill("report", "--out", out, cwd=folder)
    assert done.returncode == 2 and "names no file" in done.stderr


def test_a_place_that_cannot_be_written_is_named(folder: Path) -> None:
    done = gristmill("report", "--out", "a.jsonl/report.html", cwd=folder)
    assert done.returncode == 2
    assert "a.jsonl/report.html cannot be written" in done.stderr
