"""Files become items once: by content, whatever the file is called; a grown file is read where it is new."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import UserError
from schemas.vocabulary import Stage
from tasks.normalize import base
from tasks.normalize.importer.openai_chat import OpenaiChat
from tasks.normalize.source.spans import CHUNK
from tasks.operator import Item, WorkingSet
from tasks.stage import plan_entry
from warehouse.counts import check_counts

CHAT = {"use": "openai_chat", "dataset": "unit"}


def record(number: int) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "messages": [{"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": "a"}],
    }


def line(number: int) -> bytes:
    return json.dumps(record(number)).encode()


def test_every_shape_of_file_gives_the_same_trajectories(tmp_path: Path, run_entry: Any) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(line(n) for n in range(5)))
    (tmp_path / "b.json").write_text(json.dumps([record(n) for n in range(5)], indent=1))
    pq.write_table(pa.Table.from_pylist([record(n) for n in range(5)]), tmp_path / "c.parquet", row_group_size=2)
    (tmp_path / "d.json").write_text(json.dumps(record(0), indent=2))
    found = []
    for name, count in (("a.jsonl", 5), ("b.json", 5), ("c.parquet", 5), ("d.json", 1)):
        ran = run_entry(Stage.NORMALIZE, {**CHAT, "paths": [name], "dataset": name})
        assert (ran.report.n_in, ran.report.n_kept) == (count, count)
        found.append([t.steps for t in ran.ctx.lake.trajectories(ran.after.trajectories)])
    assert found[0] == found[1] == found[2]
    assert found[3] == found[0][:1]


def test_a_grown_file_and_a_new_one_add_only_what_is_new(tmp_path: Path, run_entry: Any) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.jsonl").write_bytes(line(1) + b"\n" + line(2) + b"\n")
    entry = {**CHAT, "paths": ["data"]}
    first = run_entry(Stage.NORMALIZE, entry)
    with (data / "a.jsonl").open("ab") as file:
        file.write(line(3) + b"\r\n\r\n" + line(1) + b"\n")
    (data / "b.jsonl").write_bytes(line(4))
    second = run_entry(Stage.NORMALIZE, entry)
    assert second.after.trajectories[:2] == first.after.trajectories
    assert second.report.n_kept == 5  # the repeated record is a record of its own
    assert second.ctx.lake.sql("select count(*) n from trajectories").to_pylist() == [{"n": 5}]
    (data / "a.jsonl").rename(data / "z.jsonl")
    third = run_entry(Stage.NORMALIZE, entry)
    assert sorted(third.after.trajectories) == sorted(second.after.trajectories)


def test_bad_lines_become_dead_letters_with_line_and_byte(tmp_path: Path, run_entry: Any) -> None:
    lines = [
        line(1),
        b'{"a": "\xff"}',
        b'{"messages": [',
        b"[]",
        b'{"x": 1}',
        b'{"messages": [{"role": "bard"}]}',
        line(2),
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    ran = run_entry(Stage.NORMALIZE, {**CHAT, "paths": ["*.jsonl"]})
    assert (ran.report.n_in, ran.report.n_kept, ran.report.n_dead) == (7, 2, 5)
    rows = ran.ctx.lake.sql("select source, position, reason from dead_letters order by position").to_pylist()
    assert {row["source"] for row in rows} == {"a.jsonl"}
    assert rows[0]["position"] == f"line 2, byte {3 + len(lines[0]) + 2}"
    assert [row["reason"] for row in rows] == ["invalid_utf8", "cut_line", "no_steps", "no_messages", "unknown_role"]


def test_a_damaged_list_gives_what_stands_before_the_damage(tmp_path: Path, run_entry: Any) -> None:
    whole = json.dumps([record(n) for n in range(4)], indent=1)
    (tmp_path / "a.json").write_text(whole[: whole.rindex('"content"')])
    ran = run_entry(Stage.NORMALIZE, {**CHAT, "paths": ["a.json"]})
    assert (ran.report.n_in, ran.report.n_kept, ran.report.n_dead) == (4, 3, 1)
    assert ran.report.reasons["cut_line"] == 1


def test_a_path_that_names_nothing_is_the_users_mistake(run_entry: Any) -> None:
    with pytest.raises(UserError, match=r"nothing\.jsonl"):
        run_entry(Stage.NORMALIZE, {**CHAT, "paths": ["nothing.jsonl"]})


def test_a_damaged_table_is_a_dead_letter_and_the_others_go_on(tmp_path: Path, run_entry: Any) -> None:
    whole = pa.Table.from_pylist([record(n) for n in range(5)])
    pq.write_table(whole, tmp_path / "a.parquet")
    raw = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(raw[: len(raw) // 2])
    pq.write_table(pa.table({"id": pa.array([b"\xff"]).view(pa.string())}), tmp_path / "c.parquet")
    pq.write_table(pa.Table.from_pylist([record(9)]), tmp_path / "d.parquet")
    ran = run_entry(Stage.NORMALIZE, {**CHAT, "paths": ["*.parquet"]})
    assert (ran.report.n_in, ran.report.n_kept, ran.report.n_dead) == (8, 6, 2)
    letters = ran.ctx.lake.sql("select source, reason, detail from dead_letters order by source").to_pylist()
    assert [(row["source"], row["reason"]) for row in letters] == [
        ("b.parquet", "unreadable_table"),
        ("c.parquet", "unreadable_table"),
    ]


def test_a_plan_in_parts_gives_what_one_plan_gives(
    tmp_path: Path, run_entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*(line(n) for n in range(7)), b'{"x": 1}', line(3), line(3)]))
    (tmp_path / "b.jsonl").write_bytes(b"\n".join(line(n) for n in (5, 11, 12)))
    entry = {**CHAT, "paths": ["*.jsonl"]}
    monkeypatch.setattr(base, "PAGE", 4)
    parts = run_entry(Stage.NORMALIZE, entry)
    assert (parts.report.n_in, parts.report.n_kept, parts.report.n_dead) == (13, 12, 1)
    # One line for the entry, however many parts it had, and the law holds for it.
    (seen,) = parts.ctx.lake.sql("select n_in, n_recorded, n_kept, n_dead, n_pending, reasons from funnel").to_pylist()
    assert (seen["n_in"], seen["n_recorded"], seen["n_kept"], seen["n_dead"], seen["n_pending"]) == (13, 13, 12, 1, 0)
    assert json.loads(seen["reasons"]) == parts.report.reasons
    assert parts.ctx.lake.sql("select count(*) n from runs").to_pylist() == [{"n": 4}]
    assert check_counts(parts.ctx.lake, parts.ctx.run_id) == []

    # In other parts it is the same work: nothing is read again.
    monkeypatch.setattr(base, "PAGE", 50_000)
    once = run_entry(Stage.NORMALIZE, entry)
    assert once.after.trajectories == parts.after.trajectories
    assert once.ctx.lake.sql("select count(*) n from trajectories").to_pylist() == [{"n": 12}]


def test_only_batches_of_which_something_is_undecided_are_planned(
    tmp_path: Path, run_entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenaiChat, "batch_size", 2)
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join([*(line(n) for n in range(4)), b'{"x": 1}']))
    ctx = run_entry(Stage.NORMALIZE, {**CHAT, "paths": ["a.jsonl"]}).ctx

    def planned() -> list[list[str]]:
        (part,) = plan_entry(ctx, Stage.NORMALIZE, 0, WorkingSet())
        batches = [msgspec.msgpack.decode(ref.items, type=list[Item]) for ref in part.batches]
        return [[item.ref for item in items] for items in batches]

    assert planned() == []
    with file.open("ab") as grown:
        grown.write(b"\n" + b"\n".join(line(n) for n in range(10, 12)))
    # The batch of the record that is dead for good is cut as ever, since its lease is on its items.
    assert planned() == [["a.jsonl:5", "a.jsonl:6"], ["a.jsonl:7"]]


def test_a_preview_ends_in_the_part_where_its_limit_lies(
    tmp_path: Path, run_entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(line(n) for n in range(20)))
    monkeypatch.setattr(base, "PAGE", 4)
    ran = run_entry(Stage.NORMALIZE, {**CHAT, "paths": ["*.jsonl"]}, limit=6)
    assert (ran.report.n_in, ran.report.n_kept) == (6, 6)


def test_a_file_that_changes_while_it_is_read_gives_no_other_text_under_a_planned_id(
    tmp_path: Path, run_entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than what is read at once, so that the second record is still on the disk when the first is looked at.
    def whole(letter: str) -> bytes:
        turns = [{"role": "user", "name": "n", "content": letter * (2 * CHUNK)}, {"role": "assistant", "content": "a"}]
        return json.dumps({"messages": turns}).encode() + b"\n"

    file = tmp_path / "a.jsonl"
    file.write_bytes(whole("a") + whole("b"))
    read = OpenaiChat.read

    def read_and_overwrite(self: OpenaiChat, record: Any) -> Any:
        if record["messages"][0]["content"][0] == "a" and file.read_bytes() == whole("a") + whole("b"):
            file.write_bytes(whole("a") + whole("c"))
        return read(self, record)

    monkeypatch.setattr(OpenaiChat, "read", read_and_overwrite)
    ran = run_entry(Stage.NORMALIZE, {**CHAT, "paths": ["a.jsonl"]})
    assert (ran.report.n_in, ran.report.n_kept, ran.report.n_pending) == (2, 1, 1)
    assert ran.report.reasons["pending:file_changed"] == 1
    (kept,) = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert kept.steps[0].content[0].text == "a" * (2 * CHUNK)
