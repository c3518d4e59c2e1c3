"""What curation resampled is written so often, in every format of trajectories; an item stays one decision."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from schemas.trajectory import Trajectory
from schemas.vocabulary import Source, Stage
from tasks.emit.audit import audit
from tasks.emit.manifest import read_manifest
from tasks.operator import WorkingSet
from warehouse.counts import check_counts

LONG = {"use": "resample_long", "bands": [{"at_least": 3, "times": 2}, {"at_least": 5, "times": 4}]}


def run_of(given: SimpleNamespace, turns: int, task: str | None = None) -> Trajectory:
    """A run of so many turns of the agent."""
    calls = [given.call_step(n, "look", f'{{"n":{n}}}', f"saw {n}") for n in range(1, turns)]
    return given.trajectory(
        given.say(Source.USER, f"look {turns} times"),
        *calls,
        given.say(Source.AGENT, "done"),
        task=task,
        tools=[given.tool_set("look", n="integer")],
    )


@pytest.fixture
def long_runs(given: SimpleNamespace, store: Callable[..., None]) -> WorkingSet:
    made = [run_of(given, turns) for turns in (1, 2, 3, 4, 5, 9)]
    store(trajectories=made)
    return WorkingSet(trajectories=tuple(one.id for one in made))


def test_times_are_recorded_by_length(long_runs: WorkingSet, run_entry: Callable[..., Any]) -> None:
    ran = run_entry(Stage.CURATE, LONG, long_runs)
    assert ran.report.reasons == {"once": 2, "resampled": 4}
    assert ran.after.kept == long_runs.trajectories
    rows = ran.ctx.lake.sql("select item_id, score, evidence_json from decisions").to_pylist()
    told = {row["item_id"]: json.loads(row["evidence_json"]) for row in rows}
    assert [told[ref] for ref in long_runs.trajectories] == [
        {"times": times, "turns": turns} for turns, times in ((1, 1), (2, 1), (3, 2), (4, 2), (5, 4), (9, 4))
    ]
    assert all(row["score"] == told[row["item_id"]]["times"] for row in rows)
    by_calls = run_entry(Stage.CURATE, {**LONG, "measure": "calls"}, long_runs)
    assert by_calls.report.reasons == {"once": 3, "resampled": 3}


@pytest.mark.parametrize("form", ["trl_sft", "tokens", "openai_chat", "sharegpt", "adp", "atif"])
def test_every_format_writes_the_rows_so_often(
    form: str,
    long_runs: WorkingSet,
    run_entry: Callable[..., Any],
    given: SimpleNamespace,
    tmp_path: Path,
) -> None:
    entry: dict[str, Any] = {"use": form}
    if form == "tokens":
        given.train_tokenizer(tmp_path / "tokenizer", "qwen2_5.jinja")
        entry["tokenizer"] = str(tmp_path / "tokenizer")
    after = run_entry(Stage.CURATE, LONG, long_runs).after
    ran = run_entry(Stage.EMIT, entry, after, curate=(LONG,))
    assert check_counts(ran.ctx.lake, ran.ctx.run_id) == []
    assert (ran.report.n_in, ran.report.n_kept) == (6, 6)
    folder = ran.ctx.out / form
    manifest = read_manifest(folder)
    assert (manifest.n_items, manifest.n_kept, manifest.n_rows) == (6, 6, 1 + 1 + 2 + 2 + 4 + 4)
    assert (manifest.facts["resampled_items"], manifest.facts["repeated_rows"]) == (4, 8)
    assert "- repeated rows: 8" in (folder / "README.md").read_text()
    assert manifest.licences == {"": 14}
    if form == "tokens":
        assert audit(folder).findings == ()
        assert manifest.facts["retokenized_rows"] == 14
    if manifest.container == "parquet":
        ids = pq.read_table(folder / "data" / "train-00000.parquet")["id"].to_pylist()
        assert ids == sorted(ids)
        assert sorted(map(ids.count, set(ids))) == [1, 1, 2, 2, 4, 4]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(folder)
    run_entry(Stage.EMIT, entry, after, curate=(LONG,))
    assert {path: path.read_bytes() for path in before} == before


def test_two_entries_multiply_and_another_recipe_writes_once(
    long_runs: WorkingSet, run_entry: Callable[..., Any]
) -> None:
    calls = {**LONG, "measure": "calls", "bands": [{"at_least": 8, "times": 3}]}
    after = run_entry(Stage.CURATE, calls, run_entry(Stage.CURATE, LONG, long_runs).after).after
    both = run_entry(Stage.EMIT, {"use": "trl_sft", "name": "both"}, after, curate=(LONG, calls))
    assert read_manifest(both.ctx.out / "both").n_rows == 1 + 1 + 2 + 2 + 4 + 12
    plain = run_entry(Stage.EMIT, {"use": "trl_sft", "name": "plain"}, after)
    manifest = read_manifest(plain.ctx.out / "plain")
    assert (manifest.n_rows, "repeated_rows" in manifest.facts) == (6, False)


def test_another_multiplicity_is_another_selection(long_runs: WorkingSet, run_entry: Callable[..., Any]) -> None:
    more = {**LONG, "bands": [{"at_least": 3, "times": 5}]}
    found = []
    for bands in (LONG, more):
        after = run_entry(Stage.CURATE, bands, long_runs).after
        ran = run_entry(Stage.EMIT, {"use": "trl_sft"}, after, curate=(bands,))
        found.append(read_manifest(ran.ctx.out / "trl_sft"))
    assert [one.n_rows for one in found] == [14, 22]
    assert found[0].selection != found[1].selection
