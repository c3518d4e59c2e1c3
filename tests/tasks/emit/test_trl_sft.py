"""Messages and tools for SFT: loaded as written, nothing merged, what cannot be said left out with a reason."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import msgspec
import pytest

from schemas.errors import Unavailable, UserError
from schemas.ids import content_id
from schemas.rows import StepLabel
from schemas.trajectory import Part, Provenance, Trajectory
from schemas.vocabulary import ArgumentState, PartType, Source
from tasks.context import Context
from tasks.emit.exporter.trl_sft import TrlSft
from tasks.emit.folder import beside, sweep
from tasks.emit.manifest import differences, read_manifest
from tasks.operator import Result, WorkingSet
from tasks.train.trainer.sft import Sft
from warehouse.lake import Lake

Make = Callable[..., Context]


def put(lake: Lake, given: SimpleNamespace, *made: Trajectory, labels: tuple[StepLabel, ...] = ()) -> WorkingSet:
    lake.append(given.stamp, {"trajectories": list(made), "step_labels": list(labels)})
    return WorkingSet(trajectories=tuple(one.id for one in made))


def emit(exporter: TrlSft, inputs: WorkingSet, ctx: Context) -> Result:
    return exporter.run(exporter.plan(inputs, ctx).items, ctx)


def load(folder: Path) -> list[dict[str, Any]]:
    return list(datasets.load_dataset(str(folder), cache_dir=str(folder.parent / "cache"))["train"])


def reasons(result: Result) -> dict[str, int]:
    found: dict[str, int] = {}
    for outcome in result.outcomes:
        found[outcome.reason] = found.get(outcome.reason, 0) + 1
    return found


def label(of: Trajectory, step: int, weight: float, call_id: str | None = None) -> StepLabel:
    key = content_id("label", of.id, step, call_id)
    return StepLabel(id=key, trajectory_id=of.id, step=step, label="masked", call_id=call_id, weight=weight)


def two_tools(given: SimpleNamespace) -> list[Trajectory]:
    user = given.say(Source.USER, "do")
    return [
        given.trajectory(
            user, given.call_step(1, "add", '{"a":1,"b":[]}', "3"), tools=[given.tool_set("add", a="integer")]
        ),
        given.trajectory(
            user,
            given.call_step(1, "find", '{"q":"2020-01-01","o":{}}', "x"),
            tools=[given.tool_set("find", q="string")],
        ),
        given.trajectory(user, given.call_step(1, "nothing", "{}", "y"), given.say(Source.AGENT, "done")),
    ]


def test_two_tools_with_different_arguments_never_share_keys(
    lake: Lake, given: SimpleNamespace, make_context: Make
) -> None:
    made = two_tools(given)
    ctx = make_context()
    emit(TrlSft(), put(lake, given, *made), ctx)
    rows = {row["id"]: row for row in load(ctx.out / "trl_sft")}
    calls = [rows[one.id]["messages"][1]["tool_calls"][0]["function"] for one in made]
    assert calls == [
        {"name": "add", "arguments": {"a": 1, "b": []}},
        {"name": "find", "arguments": {"q": "2020-01-01", "o": {}}},
        {"name": "nothing", "arguments": {}},
    ]
    tools = [rows[one.id]["tools"] for one in made]
    assert [json.loads(text)[0]["function"]["name"] for text in tools[:2]] == ["add", "find"]
    assert tools[2] is None
    assert set(rows[made[2].id]["messages"][-1]) == {"role", "content"}


def test_the_order_of_the_input_and_a_second_run_change_no_byte(
    lake: Lake, given: SimpleNamespace, make_context: Make
) -> None:
    made = [*two_tools(given), *(given.chat(f"q{i}", f"a{i}") for i in range(40))]
    inputs = put(lake, given, *made)
    turned = WorkingSet(trajectories=tuple(reversed(inputs.trajectories)))
    first, second = make_context("first"), make_context("second")
    emit(TrlSft(), inputs, first)
    emit(TrlSft(), turned, second)
    names = ["README.md", "manifest.json", "data/train-00000.parquet"]
    assert [(first.out / "trl_sft" / n).read_bytes() for n in names] == [
        (second.out / "trl_sft" / n).read_bytes() for n in names
    ]
    before = [(first.out / "trl_sft" / n).stat().st_mtime_ns for n in names]
    emit(TrlSft(), inputs, first)
    assert [(first.out / "trl_sft" / n).stat().st_mtime_ns for n in names] == before


def test_files_name_no_run_no_path_no_time(lake: Lake, given: SimpleNamespace, make_context: Make) -> None:
    ctx = make_context()
    result = emit(TrlSft(), put(lake, given, given.chat("q", "a")), ctx)
    texts = "".join((ctx.out / "trl_sft" / name).read_text() for name in ("README.md", "manifest.json"))
    assert str(ctx.out) not in texts
    assert "snapshot" not in texts
    (row,) = result.rows["exports"]
    assert (row.path, row.snapshot, row.rows) == (str(ctx.out / "trl_sft"), lake.snapshot(), 1)


def test_what_cannot_be_said_is_left_out_with_its_reason(
    lake: Lake, given: SimpleNamespace, make_context: Make
) -> None:
    replace = msgspec.structs.replace
    fine = given.chat("q", "a")
    step = given.call_step(1, "f", '{"a": 12345678901234567890123}', "r")
    broken = replace(
        step, tool_calls=(replace(step.tool_calls[0], state=ArgumentState.TRUNCATED, arguments_json=None),)
    )
    picture = given.trajectory(
        replace(given.say(Source.USER, "see"), content=(Part(type=PartType.IMAGE, uri="x.png"),))
    )
    made = [
        fine,
        given.trajectory(given.say(Source.USER, "q"), step),
        given.trajectory(given.say(Source.USER, "q"), broken),
        given.trajectory(*picture.steps, given.say(Source.AGENT, "a")),
        given.trajectory(given.say(Source.USER, "nobody answers")),
        given.trajectory(given.say(Source.USER, "q"), replace(given.say(Source.AGENT, "a"), weight=0.0)),
    ]
    ctx = make_context()
    result = emit(TrlSft(), put(lake, given, *made), ctx)
    assert reasons(result) == {"ok": 1, "json_range": 1, "arguments_truncated": 1, "media": 1, "zero_mask": 2}
    manifest = read_manifest(ctx.out / "trl_sft")
    assert manifest.left_out == {"json_range": 1, "arguments_truncated": 1, "media": 1, "zero_mask": 2}
    assert (manifest.n_items, manifest.n_kept, manifest.n_rows) == (6, 1, 1)


def test_labels_make_new_items_and_are_counted_where_the_format_cannot_hold_them(
    lake: Lake, given: SimpleNamespace, make_context: Make
) -> None:
    one = given.trajectory(given.say(Source.USER, "q"), given.say(Source.AGENT, "a"), given.say(Source.AGENT, "b"))
    inputs = put(lake, given, one)
    ctx = make_context()
    exporter = TrlSft()
    before = exporter.plan(inputs, ctx).items
    put(lake, given, one, labels=(label(one, 1, 0.0),))
    after = exporter.plan(inputs, ctx).items
    assert (before[0].ref, before[0].id) == (one.id, one.id)
    assert after[0].ref == one.id
    assert after[0].id != one.id
    assert reasons(emit(exporter, inputs, ctx)) == {"ok": 1}
    assert read_manifest(ctx.out / "trl_sft").facts["unapplied_weights"] == 1
    assert reasons(emit(TrlSft(partial="drop"), inputs, ctx)) == {"partial_mask": 1}


def test_another_recipes_labels_do_not_count(lake: Lake, given: SimpleNamespace, make_context: Make) -> None:
    one = given.chat("q", "a")
    inputs = put(lake, given, one, labels=(label(one, 1, 0.0),))
    assert reasons(emit(TrlSft(), inputs, make_context("all"))) == {"zero_mask": 1}
    ctx = make_context("own", pair=({"use": "verified_pairs"},))
    assert reasons(emit(TrlSft(), inputs, ctx)) == {"ok": 1}


def test_the_licence_of_the_sources_is_stated(lake: Lake, given: SimpleNamespace, make_context: Make) -> None:
    one = msgspec.structs.replace(given.chat("q", "a"), provenance=Provenance(licence="mit"))
    ctx = make_context()
    emit(TrlSft(), put(lake, given, one), ctx)
    assert read_manifest(ctx.out / "trl_sft").licence == "mit"
    assert 'license: "mit"' in (ctx.out / "trl_sft" / "README.md").read_text()


def test_a_damaged_or_missing_folder_is_not_present(lake: Lake, given: SimpleNamespace, make_context: Make) -> None:
    ctx = make_context()
    exporter, inputs = TrlSft(), put(lake, given, given.chat("q", "a"))
    items = exporter.plan(inputs, ctx).items
    assert not exporter.present(items, ctx)
    exporter.run(items, ctx)
    assert exporter.present(items, ctx)
    shard = ctx.out / "trl_sft" / "data" / "train-00000.parquet"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-5])
    assert not exporter.present(items, ctx)
    assert differences(ctx.out / "trl_sft", read_manifest(ctx.out / "trl_sft")) == [
        "data/train-00000.parquet is not the file that was written"
    ]
    exporter.run(items, ctx)
    assert shard.read_bytes() == whole


def test_a_folder_with_other_files_is_refused(lake: Lake, given: SimpleNamespace, make_context: Make) -> None:
    ctx = make_context()
    (ctx.out / "trl_sft").mkdir(parents=True)
    (ctx.out / "trl_sft" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match=r"thesis\.txt"):
        emit(TrlSft(), put(lake, given, given.chat("q", "a")), ctx)
    assert (ctx.out / "trl_sft" / "thesis.txt").read_text() == "mine"
    assert sorted(path.name for path in ctx.out.iterdir()) == ["trl_sft"]


def test_what_a_killed_process_left_is_swept(lake: Lake, given: SimpleNamespace, make_context: Make) -> None:
    ctx = make_context()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    target = ctx.out / "trl_sft"
    mine = beside(target, "tmp").name.removesuffix(str(os.getpid()))
    left = ctx.out / f"{mine}{int(gone.stdout)}"
    (left / "data").mkdir(parents=True)
    other = ctx.out / f"{mine}{os.getppid()}"
    other.mkdir()
    # Names of a user's own that merely look alike.
    backup = ctx.out / ".trl_sft.backup-20240101"
    backup.mkdir()
    emit(TrlSft(), put(lake, given, given.chat("q", "a")), ctx)
    assert not left.exists()
    assert sorted(path.name for path in ctx.out.iterdir()) == sorted([other.name, backup.name, "trl_sft"])


def test_killed_between_the_renames_the_old_folder_comes_back(
    lake: Lake, given: SimpleNamespace, make_context: Make
) -> None:
    ctx = make_context()
    target = ctx.out / "trl_sft"
    emit(TrlSft(), put(lake, given, given.chat("q", "a")), ctx)
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    target.rename(ctx.out / f"{beside(target, 'old').name.removesuffix(str(os.getpid()))}{int(gone.stdout)}")
    sweep(target)
    assert [path.name for path in ctx.out.iterdir()] == ["trl_sft"]
    assert read_manifest(target).n_rows == 1


def test_files_of_others_inside_a_shard_folder_are_not_replaced(
    lake: Lake, given: SimpleNamespace, make_context: Make
) -> None:
    ctx = make_context()
    emit(TrlSft(), put(lake, given, given.chat("q", "a")), ctx)
    (ctx.out / "trl_sft" / "data" / "note.txt").write_text("mine")
    with pytest.raises(UserError, match=r"note\.txt"):
        emit(TrlSft(), put(lake, given, given.chat("q", "b")), ctx)
    foreign = ctx.out / "other"
    (foreign / "data").mkdir(parents=True)
    (foreign / "manifest.json").write_text('{"x": 1}')
    with pytest.raises(UserError, match="no manifest of ours"):
        emit(TrlSft(name="other"), put(lake, given, given.chat("q", "c")), ctx)


@pytest.mark.parametrize("name", ["../x", "/etc/x", ".", ".hidden", "a\nb", "checkpoints"])
def test_a_name_that_is_no_plain_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name = "):
        TrlSft(name=name)
    if name != "checkpoints":
        with pytest.raises(ValueError, match="name = "):
            Sft(shards="x", name=name)


def test_a_full_disk_leaves_the_items_pending_and_the_old_folder_whole(
    lake: Lake, given: SimpleNamespace, make_context: Make
) -> None:
    ctx = make_context()
    inputs = put(lake, given, given.chat("q", "a"))
    emit(TrlSft(), inputs, ctx)
    before = read_manifest(ctx.out / "trl_sft")
    noise = random.Random(0).randbytes(1_000_000).hex()
    more = WorkingSet(trajectories=(*inputs.trajectories, *put(lake, given, given.chat("q", noise)).trajectories))
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    before_signal = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    exporter = TrlSft()
    items = exporter.plan(more, ctx).items
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, -1))
    try:
        with pytest.raises(Unavailable, match="disk"):
            exporter.write(items, ctx, ctx.out / "trl_sft")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
        signal.signal(signal.SIGXFSZ, before_signal)
    assert read_manifest(ctx.out / "trl_sft") == before
    assert differences(ctx.out / "trl_sft", before) == []
    assert sorted(path.name for path in ctx.out.iterdir()) == ["trl_sft"]
