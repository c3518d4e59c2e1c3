"""What one looks at things with names what it shows, says what holds, and leads on to the next step."""

import json
import shutil
from pathlib import Path

import pytest

from tests.flows.running import gristmill as command

RECIPE = """
name = "logs"
max_failed = 1.0
[[normalize]]
use = "openai_chat"
paths = ["a.jsonl"]
dataset = "logs"
[[curate]]
use = "near_duplicate"
threshold = {threshold}
"""
WORDS = [letter * 5 for letter in "abcdefghijklmnopqrs"]


def gristmill(*arguments: str, cwd: Path, code: int = 0) -> tuple[str, str]:
    """Standard output and error of a command that ends with `code`."""
    done = command(*arguments, cwd=cwd, env={"COLUMNS": "200"})
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two runs of a recipe: a near duplicate goes under the first one's threshold only; one dead letter."""
    folder = tmp_path_factory.mktemp("look")
    lines = []
    for last in (*WORDS[:2], "wholly other words that share nothing with them at all but stand here in their place"):
        text = last if " " in last else " ".join([*WORDS, *reversed(WORDS), last])
        turns = [{"role": "user", "content": text}, {"role": "assistant", "content": f"{text} again"}]
        lines.append(json.dumps({"messages": turns}))
    (folder / "a.jsonl").write_text("\n".join([*lines, '{"messages": 7}']) + "\n", encoding="utf-8")
    for threshold in (0.5, 0.99):
        (folder / "logs.toml").write_text(RECIPE.format(threshold=threshold), encoding="utf-8")
        gristmill("run", "logs.toml", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[str]:
    """The ids of the two runs, the newest first."""
    found = [run["run_id"] for run in json.loads(gristmill("status", "--json", cwd=folder)[0])]
    assert len(found) == 2
    return found


@pytest.fixture(scope="module")
def dropped(folder: Path) -> str:
    """The id of what the first run dropped and the second kept."""
    answer, _ = gristmill(
        "query", "select item_id from decisions where decision = 'drop'", "--format", "json", cwd=folder
    )
    return str(json.loads(answer)["item_id"])


@pytest.mark.parametrize("name", ["funnel", "failed"])
def test_the_run_is_named_and_so_are_the_others(folder: Path, runs: list[str], name: str) -> None:
    shown, _ = gristmill(name, f"{runs[1]}", cwd=folder)
    first, second, *_ = shown.splitlines()
    assert first.startswith(f"run {runs[1]} of logs, begun 20") and ", done after" in first
    assert second == f"1 more in this lake, of logs: gristmill status lists them, gristmill {name} RUN shows one"


def test_without_a_run_the_newest_is_counted_and_all_are_searched_for_the_dead(folder: Path, runs: list[str]) -> None:
    shown, _ = gristmill("funnel", cwd=folder)
    assert shown.startswith(f"run {runs[0]} of logs")
    assert f"gristmill failed {runs[0]}" in shown
    assert gristmill("failed", cwd=folder)[0].startswith("all 2 runs of this lake, of logs; those of one: gristmill")


def test_a_dead_letter_belongs_to_every_run_that_has_it_and_leads_to_its_story(folder: Path, runs: list[str]) -> None:
    for run in runs:
        (letter,) = json.loads(gristmill("failed", run, "--json", cwd=folder)[0])
        assert letter["reason"] == "wrong_type" and letter["decided"] is False and letter["run_id"] == runs[1]
    shown, _ = gristmill("failed", runs[0], cwd=folder)
    assert f"item {letter['item_id'][:12]}…" in shown and "gristmill why ITEM" in shown
    told, _ = gristmill("why", f"{letter['item_id'][:12]}…", cwd=folder)
    assert "dead  wrong_type" in told
    _, refused = gristmill("show", letter["item_id"], cwd=folder, code=2)
    assert f"gristmill why {letter['item_id']}" in refused


def test_why_tells_what_holds_and_the_rest_on_demand(folder: Path, dropped: str) -> None:
    told, _ = gristmill("why", f"{dropped[:12]}…", cwd=folder)
    assert "near_duplicate        keep" in told and "near_duplicate        drop" not in told
    assert "1 older ruling no longer holds" in told and "--all" in told
    every, _ = gristmill("why", dropped[:12], "--all", cwd=folder)
    assert every.index("keep  ok") < every.index("no longer hold") < every.index("drop  near_duplicate")
    rows = json.loads(gristmill("why", dropped, "--json", cwd=folder)[0])
    assert [(row["decision"], row["holds"]) for row in rows if row["stage"] == "curate"] == [
        ("drop", False),
        ("keep", True),
    ]


def test_what_was_changed_back_holds_again(folder: Path, dropped: str, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "look")
    gristmill("run", "logs.toml", "--set", "curate.0.threshold=0.5", cwd=tmp_path / "look")
    told, _ = gristmill("why", dropped, cwd=tmp_path / "look")
    assert "near_duplicate        drop" in told and "near_duplicate        keep" not in told


def test_a_threshold_is_shown_with_what_differs(folder: Path) -> None:
    shown, _ = gristmill("threshold", "logs", "--at", "0.5", cwd=folder)
    mine, others = (line for line in shown.splitlines() if line.startswith(("    - ", "    + ")))
    assert all(line[6:].startswith("… ddddd ccccc bbbbb aaaaa ") for line in (mine, others))
    assert mine[6:] != others[6:] and len(mine) == len(others)
    assert "would go for" in shown and "gristmill show ID" in shown


def test_a_preview_without_a_model_says_what_a_run_would_do(folder: Path) -> None:
    shown, _ = gristmill("preview", "logs.toml", cwd=folder)
    rows = [line.split() for line in shown.splitlines()]
    assert ["normalize", "openai_chat", "records", "4", "4"] in rows
    assert "model calls: none" in shown and "0 tasks" not in shown
    told = json.loads(gristmill("preview", "logs.toml", "--set", "curate.0.threshold=0.7", "--json", cwd=folder)[0])
    assert set(told) == {"summary", "estimate", "entries"}
    entries = {each["name"]: each for each in told["entries"]}
    assert (entries["openai_chat"]["planned"], entries["openai_chat"]["exact"]) == (4, True)
    near = entries["near_duplicate"]
    assert (near["reads"], near["scope"], near["exact"], near["decided"]) == ("kept", "set", False, 0)


def test_a_preview_needs_no_lake_and_makes_none(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "look", ignore=shutil.ignore_patterns("lake"))
    shown, _ = gristmill("preview", "logs.toml", cwd=tmp_path / "look")
    assert ["normalize", "openai_chat", "records", "4", "none"] in [line.split() for line in shown.splitlines()]
    assert not (tmp_path / "look" / "lake").exists()


def test_ids_are_cut_with_a_mark_for_people_only(folder: Path, dropped: str) -> None:
    query = ["query", f"select item_id from decisions where item_id = '{dropped}' limit 1"]
    assert f"{dropped[:12]}…" in gristmill(*query, cwd=folder)[0]
    for fmt in ("json", "csv"):
        shown, hints = gristmill(*query, "--format", fmt, cwd=folder)
        assert dropped in shown and "…" not in shown and hints == ""
    gristmill(*query, "--out", "ids.csv", cwd=folder)
    assert dropped in (folder / "ids.csv").read_text(encoding="utf-8")


def test_a_query_for_a_cut_id_is_told_why_it_finds_nothing(folder: Path, dropped: str) -> None:
    shown, hints = gristmill("query", f"select id from trajectories where id = '{dropped[:12]}'", cwd=folder)
    assert "0 rows" in shown and f"starts_with(id, '{dropped[:12]}')" in hints


@pytest.mark.parametrize("name", ["show", "why"])
def test_an_id_is_taken_as_it_is_shown(folder: Path, dropped: str, name: str) -> None:
    assert len({gristmill(name, dropped[:12] + mark, cwd=folder)[0] for mark in ("", "…", "...")}) == 1


def test_a_run_is_taken_by_its_start_with_a_mark(folder: Path, runs: list[str]) -> None:
    assert gristmill("status", f"{runs[1][:-2]}…", cwd=folder)[0].startswith(f"run {runs[1]} ")


@pytest.mark.parametrize(
    "arguments",
    [("run", "logs.toml"), ("import", "openai_chat", "a.jsonl"), ("status",), ("maintain",), ("funnel",), ("serve",)],
)
def test_a_file_as_the_lake_is_refused_with_what_to_do(folder: Path, arguments: tuple[str, ...]) -> None:
    _, told = gristmill(*arguments, "--lake", "a.jsonl", cwd=folder, code=2)
    assert "a.jsonl is a file, not a folder" in told and "leave the option out" in told and "Mend" not in told


def test_a_lake_without_a_run_says_how_to_make_one(tmp_path: Path) -> None:
    from warehouse.lake import Lake

    Lake.open(tmp_path / "lake").close()
    assert "gristmill run RECIPE" in gristmill("status", cwd=tmp_path)[0]
    assert "gristmill run RECIPE" in gristmill("funnel", cwd=tmp_path, code=2)[1]
    assert gristmill("failed", cwd=tmp_path)[0] == "No dead letters.\n"


def test_foreign_text_is_neither_markup_nor_an_order_to_the_terminal(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "[/INST] hi \x1b]0;x\x07"}, {"role": "assistant", "content": "[red]a[/red]"}]
    (tmp_path / "a.jsonl").write_text(json.dumps({"messages": turns}) + "\n", encoding="utf-8")
    gristmill("import", "a.jsonl", cwd=tmp_path)
    query = 'select id, steps[1].content[1].text as "[/b]", steps[2].content[1].text as said from trajectories'
    shown, _ = gristmill("query", query, cwd=tmp_path)
    ref = json.loads(gristmill("query", query, "--format", "json", cwd=tmp_path)[0])["id"]
    for text in (shown, gristmill("show", ref, cwd=tmp_path)[0]):
        assert "[/INST] hi ␛]0;x␇" in text and "[red]a[/red]" in text and "\x1b" not in text
    assert "[/b]" in shown


def test_an_item_named_in_full_is_meant_though_it_begins_others(tmp_path: Path) -> None:
    lines = [json.dumps({"messages": [{"role": "user", "content": f"text {number}"}]}) for number in range(12)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    gristmill("import", "a.jsonl", cwd=tmp_path)
    story = json.loads(gristmill("why", "a.jsonl:1", "--json", cwd=tmp_path)[0])
    assert [row["parents"] for row in story] == [["a.jsonl:1"]]
    assert "'a.jsonl:' is the start of 12 ids" in gristmill("why", "a.jsonl:", cwd=tmp_path, code=2)[1]
    assert "No item was named" in gristmill("why", "…", cwd=tmp_path, code=2)[1]


def test_a_file_gets_the_format_that_its_name_says(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "x"}]}) + "\n")
    gristmill("import", "a.jsonl", cwd=tmp_path)
    for name in ("o.jsonl", "o.csv", "o.parquet"):
        gristmill("query", "select 7 as n from trajectories", "--out", name, cwd=tmp_path)
    assert (tmp_path / "o.jsonl").read_text() == '{"n": 7}\n'
    assert (tmp_path / "o.csv").read_text() == "n\n7\n"
    assert (tmp_path / "o.parquet").read_bytes()[:4] == b"PAR1"
