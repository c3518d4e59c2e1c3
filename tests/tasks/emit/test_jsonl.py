"""The JSON-lines exporters: every format loads, weights stand where there is a place, mixed fields are declared."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import msgspec
import pytest

from schemas.ids import content_id
from schemas.recipe import Recipe
from schemas.rows import StepLabel
from schemas.trajectory import Outcome, Trajectory
from schemas.vocabulary import Kind, Source
from tasks.context import Context
from tasks.emit import base
from tasks.emit.base import Exporter, Written
from tasks.emit.manifest import read_manifest
from tasks.operator import WorkingSet
from tasks.registry import build, plugin_ids
from warehouse.lake import Lake

Make = Callable[..., Context]
JSONL = ["adp", "atif", "openai_chat", "sharegpt"]


def nasty(given: SimpleNamespace) -> list[Trajectory]:
    """Different tools, outcomes of different types, dates in strings, nothing said, unicode separators."""
    user = given.say(Source.USER, "2020-01-01")
    made = [
        given.trajectory(user, given.call_step(1, "f", '{"a":1}', "007"), tools=[given.tool_set("f", a="integer")]),
        given.trajectory(
            given.say(Source.SYSTEM, "s"),
            user,
            given.call_step(2, "g", '{"b":{"c":[]}}', ""),
            given.say(Source.AGENT, "ok"),
        ),
        given.trajectory(user, given.say(Source.AGENT, "line\u2028line\r\n\t\u0000 🎉")),
    ]
    outcomes = [
        Outcome(success=True),
        Outcome(raw_json='{"score":0.5,"target":"x"}'),
        Outcome(raw_json='{"score":"high"}'),
    ]
    return [msgspec.structs.replace(one, outcome=o) for one, o in zip(made, outcomes, strict=True)]


def put(lake: Lake, given: SimpleNamespace, made: list[Trajectory], labels: tuple[StepLabel, ...] = ()) -> WorkingSet:
    lake.append(given.stamp, {"trajectories": made, "step_labels": list(labels)})
    return WorkingSet(trajectories=tuple(one.id for one in made))


def lines(folder: Path) -> list[dict[str, Any]]:
    found = sorted((folder / "data").glob("*.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text(encoding="utf-8").split("\n") if line]


def export(ctx: Context, inputs: WorkingSet, form: str, out: Path, **options: Any) -> Written:
    exporter = build(Kind.EXPORTER, {"use": form, "name": out.name, **options})
    assert isinstance(exporter, Exporter)
    return exporter.write(exporter.plan(inputs, ctx).items, ctx, out)


@pytest.mark.parametrize("form", JSONL)
def test_datasets_loads_what_was_written(
    form: str, lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path
) -> None:
    ctx = make_context()
    written = export(ctx, put(lake, given, nasty(given)), form, tmp_path / "made" / form)
    assert (written.manifest.n_rows, written.manifest.format) == (3, form)
    records = lines(written.folder)
    loaded = list(datasets.load_dataset(str(written.folder), cache_dir=str(tmp_path / "cache"))["train"])
    for record, found in zip(records, loaded, strict=True):
        assert found == {name: record.get(name) for name in found}
    assert str(tmp_path) not in (written.folder / "manifest.json").read_text()


@pytest.mark.parametrize("form", JSONL)
def test_bytes_do_not_depend_on_order(
    form: str, lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path
) -> None:
    inputs = put(lake, given, nasty(given))
    turned = WorkingSet(trajectories=tuple(reversed(inputs.trajectories)))
    first = export(make_context(), inputs, form, tmp_path / "a" / form)
    second = export(make_context(), turned, form, tmp_path / "b" / form)
    assert first.manifest.files == second.manifest.files
    for name in ("README.md", "manifest.json"):
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()


def test_openai_rows_carry_weight_zero_on_masked_turns(
    lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path
) -> None:
    one = given.trajectory(
        given.say(Source.USER, "q"), given.call_step(1, "f", '{"a":1}', "no", error=True), given.say(Source.AGENT, "ok")
    )
    muted = given.chat("q", "muted")
    labels = tuple(
        StepLabel(id=content_id("l", of.id), trajectory_id=of.id, step=1, label="x", call_id=call, weight=0.0)
        for of, call in ((one, "s1c0"), (muted, None))
    )
    inputs = put(lake, given, [one, muted], labels)
    written = export(make_context(), inputs, "openai_chat", tmp_path / "o", minimal=True)
    assert written.manifest.left_out == {"zero_mask": 1}
    assert written.manifest.facts == {"masked_rows": 1}
    (record,) = lines(written.folder)
    assert set(record) <= {"messages", "tools"}
    assert [message.get("weight") for message in record["messages"]] == [None, 0, None, None]
    assert isinstance(record["messages"][1]["tool_calls"][0]["function"]["arguments"], str)
    written = export(make_context(), inputs, "adp", tmp_path / "adp")
    assert written.manifest.facts == {"unapplied_weights": 2}


def test_every_exporter_builds_and_says_what_it_writes() -> None:
    ids = plugin_ids(Kind.EXPORTER)
    assert set(ids) >= {*JSONL, "trl_sft", "trl_dpo", "trl_grpo", "tokens"}
    for use in ids:
        exporter = build(Kind.EXPORTER, {"use": use, "name": "x"})
        assert isinstance(exporter, Exporter)
        assert exporter.about
        assert exporter.label == "x"


def test_a_second_export_of_less_replaces_the_folder(
    lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path
) -> None:
    inputs = put(lake, given, nasty(given))
    export(make_context(), inputs, "atif", tmp_path / "x", shard_mb=1, row_group_mb=1)
    fewer = WorkingSet(trajectories=inputs.trajectories[:1])
    export(make_context(), fewer, "atif", tmp_path / "x")
    assert read_manifest(tmp_path / "x").n_rows == 1
    assert len(lines(tmp_path / "x")) == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_long_export_says_how_far_it_is(
    lake: Lake, given: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_CHUNK", 2)
    monkeypatch.setattr(base, "_SIGN_OF_LIFE_S", 0.0)
    inputs = put(lake, given, [given.chat(f"question {number}", "answer") for number in range(5)])
    said: list[str] = []
    ctx = Context(Recipe(name="test"), lake, "run", tmp_path, tmp_path / "out", say=said.append)
    export(ctx, inputs, "sharegpt", tmp_path / "shards")
    assert said == [f"shards: {done} of 5 items written" for done in (0, 2, 4)]
