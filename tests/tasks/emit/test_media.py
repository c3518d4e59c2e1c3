"""Media come back out: files beside the shards, or data URLs in the rows, and what reads the shards finds them."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset

from schemas.errors import UserError
from schemas.rows import TokenSpan
from schemas.trajectory import Part, Step, ToolCall, ToolResult, Trajectory
from schemas.vocabulary import PartType, Source, Stage
from tasks.emit.manifest import differences, read_manifest
from tasks.media import ending_of
from tasks.operator import WorkingSet
from warehouse.blobs import Blobs, key_of

PNG, JPG, WAV = b"\x89PNG\r\n\x1a\n one", b"\xff\xd8\xff two", b"RIFF\x04\x00\x00\x00WAVE three"
HTML = "<html>é</html>"
MADE = [("adp", {}), ("atif", {}), ("sharegpt", {}), ("openai_chat", {}), ("openai_chat", {"media": "file"})]


def media(kind: PartType, data: bytes, media_type: str, lake: Any) -> Part:
    sha256 = Blobs(lake).put(data)
    return Part(type=kind, media_type=media_type, sha256=sha256, uri=key_of(sha256))


@pytest.fixture
def rows(lake: Any, store: Any, given: Any) -> list[Trajectory]:
    """A trajectory with an image of the user's, one of a tool's, sound, and a web page; and one without media."""
    png, jpg = media(PartType.IMAGE, PNG, "image/png", lake), media(PartType.IMAGE, JPG, "image/jpeg", lake)
    page = media(PartType.FILE, HTML.encode(), "text/html", lake)
    call = ToolCall(id="s3c0", name="look", arguments="{}", arguments_json="{}")
    steps = (
        Step(source=Source.USER, content=(png,)),
        Step(source=Source.AGENT, content=(Part(text="I look."),)),
        Step(source=Source.USER, content=(media(PartType.AUDIO, WAV, "audio/wav", lake),)),
        Step(source=Source.AGENT, tool_calls=(call,), results=(ToolResult(call_id="s3c0", content=(jpg,)),)),
        Step(source=Source.ENVIRONMENT, content=(page,)),
        Step(source=Source.AGENT, content=(Part(text="Done."),)),
    )
    made = [given.trajectory(*steps), given.chat("q", "a")]
    store(trajectories=made)
    return made


def hashes(row: Trajectory) -> dict[str, str | None]:
    """The media type of every blob."""
    parts = [p for s in row.steps for p in (*s.content, *(q for r in s.results for q in r.content))]
    return {part.sha256: part.media_type for part in parts if part.sha256 is not None}


def emit(run_entry: Any, use: str, rows: list[Trajectory], **more: Any) -> Path:
    kept = WorkingSet(kept=tuple(row.id for row in rows))
    ran = run_entry(Stage.EMIT, {"use": use, **more}, kept)
    assert (ran.report.n_kept, ran.report.n_dropped) == (len(rows), 0)
    return ran.ctx.out / use  # type: ignore[no-any-return]


def records(folder: Path) -> dict[str, Any]:
    lines = (folder / "data" / "train-00000.jsonl").read_text().splitlines()
    return {text: json.loads(text) for text in lines}


@pytest.mark.parametrize(("use", "more"), MADE)
def test_rows_and_files_hold_the_media(
    use: str, more: dict[str, Any], rows: list[Trajectory], run_entry: Any, lake: Any
) -> None:
    folder = emit(run_entry, use, rows, **more)
    manifest = read_manifest(folder)
    assert differences(folder, manifest) == []
    [text] = [text for text in records(folder) if "I look." in text]
    files = {file.sha256: file.path for file in manifest.media}
    if (use, more) == ("openai_chat", {}):
        assert files == {} and not (folder / "data" / "media").exists()
        found = [json.loads(text)["messages"][index]["content"][0] for index in (0, 2, 4)]
        assert [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in (found[0], found[2])] == [
            PNG,
            JPG,
        ]
        assert found[1] == {
            "type": "input_audio",
            "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"},
        }
    else:
        assert {(folder / path).read_bytes() for path in files.values()} == {PNG, JPG, WAV}
        for sha256, path in files.items():
            assert path == f"data/media/{sha256}{Path(path).suffix}"
            assert path.removeprefix("data/") in text, "the row names the file, seen from its shard"
        assert {Path(path).suffix for path in files.values()} == {".png", ".jpg", ".wav"}
    assert json.dumps(HTML, ensure_ascii=False)[1:-1] in text, "a page is text again"
    loaded = load_dataset(str(folder), split="train", cache_dir=str(folder.parent / "cache"))
    assert loaded.num_rows == 2


@pytest.mark.parametrize("use", ["adp", "atif", "openai_chat"])
def test_shards_are_read_back_with_their_media(use: str, rows: list[Trajectory], run_entry: Any, lake: Any) -> None:
    folder = emit(run_entry, use, rows, **({"media": "file"} if use == "openai_chat" else {}))
    ran = run_entry(Stage.NORMALIZE, {"use": use, "paths": [str(folder / "data" / "train-00000.jsonl")]})
    again = ran.ctx.lake.trajectories(ran.after.trajectories)
    found, types = set().union(*(hashes(row) for row in again)), hashes(rows[0])
    # OpenAI and ATIF have no page: it is text there. ADP has no sound: it is named in the text.
    lost = "audio/wav" if use == "adp" else "text/html"
    assert types.keys() - found == {sha256 for sha256, kind in types.items() if kind == lost}
    assert not [name for row in again for name in row.provenance.lost_fields if name.startswith("media")]


def test_the_same_media_give_the_same_bytes_and_nothing_foreign_is_replaced(
    rows: list[Trajectory], run_entry: Any, lake: Any
) -> None:
    folder = emit(run_entry, "atif", rows)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    emit(run_entry, "atif", rows)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    own = next((folder / "data" / "media").iterdir())
    own.write_bytes(b"torn")
    emit(run_entry, "atif", rows)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    (folder / "data" / "media" / "mine.png").write_bytes(b"x")
    own.unlink()
    with pytest.raises(UserError, match=r"mine\.png"):
        emit(run_entry, "atif", rows)


@pytest.mark.parametrize("more", [{"use": "atif"}, {"use": "openai_chat"}])
def test_a_row_whose_blob_is_gone_is_left_out_and_counted(
    more: dict[str, Any], rows: list[Trajectory], run_entry: Any, lake: Any
) -> None:
    sha256 = rows[0].steps[0].content[0].sha256
    (Path(lake.address) / key_of(str(sha256))).unlink()
    ran = run_entry(Stage.EMIT, more, WorkingSet(kept=tuple(row.id for row in rows)))
    assert (ran.report.n_kept, ran.report.n_dropped) == (1, 1)
    assert read_manifest(ran.ctx.out / more["use"]).left_out == {"blob_missing": 1}


def test_an_ending_is_the_same_on_every_machine() -> None:
    assert [ending_of(kind) for kind in ("image/jpg", "image/PNG; q=1", "audio/x-wav", None, "x/y")] == [
        ".jpg", ".png", ".wav", ".bin", ".bin",
    ]  # fmt: skip


def test_token_ids_and_log_probabilities_come_back_from_atif(lake: Any, store: Any, run_entry: Any, given: Any) -> None:
    row = given.trajectory(
        *(Step(source=source, content=(Part(text=text),)) for source, text in
          [(Source.USER, "a"), (Source.AGENT, "b"), (Source.AGENT, "c"), (Source.AGENT, "d"), (Source.AGENT, "e")])
    )  # fmt: skip
    spans = [
        TokenSpan(id="s1", trajectory_id=row.id, step=1, prompt_token_ids=(1, 2), completion_token_ids=(3, 4),
                  completion_logprobs=(-0.25, -1.5)),
        TokenSpan(id="s2", trajectory_id=row.id, step=2, prompt_token_ids=(1, 2, 3), completion_token_ids=(7,)),
        TokenSpan(id="s3", trajectory_id=row.id, step=3, prompt_token_ids=(5,), completion_token_ids=(6,),
                  completion_logprobs=(float("-inf"),)),
        *(TokenSpan(id=f"s4{n}", trajectory_id=row.id, step=4, completion_token_ids=(n,)) for n in (1, 2)),
    ]  # fmt: skip
    store(trajectories=[row], token_spans=spans)
    folder = emit(run_entry, "atif", [row])
    assert read_manifest(folder).facts == {"token_spans": 3, "token_spans_left_out": 2, "unapplied_weights": 0}
    [record] = records(folder).values()
    assert [step.get("metrics") for step in record["steps"]] == [
        None,
        {"prompt_token_ids": [1, 2], "completion_token_ids": [3, 4], "logprobs": [-0.25, -1.5]},
        {"prompt_token_ids": [1, 2, 3], "completion_token_ids": [7]},
        {"prompt_token_ids": [5], "completion_token_ids": [6]},
        None,
    ]
    ran = run_entry(Stage.NORMALIZE, {"use": "atif", "paths": [str(folder / "data" / "train-00000.jsonl")]})
    [again] = ran.ctx.lake.token_spans(ran.after.trajectories).values()
    held = [(s.step, s.prompt_token_ids, s.completion_token_ids, s.completion_logprobs) for s in again]
    wanted = [(s.step, s.prompt_token_ids, s.completion_token_ids, s.completion_logprobs) for s in spans[:3]]
    assert held == [*wanted[:2], (*wanted[2][:3], None)]


@pytest.mark.parametrize("use", ["trl_sft", "data_risk"])
def test_a_page_is_read_by_trainers_and_by_the_search_for_secrets(
    use: str, lake: Any, store: Any, run_entry: Any, given: Any
) -> None:
    page = media(PartType.FILE, b"<p>pay with 4111 1111 1111 1111</p>", "text/html", lake)
    row = given.trajectory(
        given.say(Source.USER, "Open it."),
        Step(source=Source.ENVIRONMENT, content=(page,)),
        given.say(Source.AGENT, "Done."),
    )
    store(trajectories=[row])
    if use == "trl_sft":
        folder = emit(run_entry, use, [row])
        [made] = load_dataset(str(folder), split="train", cache_dir=str(folder.parent / "cache"))
        assert made["messages"][1]["content"] == "<p>pay with 4111 1111 1111 1111</p>"
        return
    ran = run_entry(Stage.CURATE, {"use": use}, WorkingSet(trajectories=(row.id,)))
    reasons = ran.ctx.lake.sql("select reason, evidence_json from decisions where stage = 'curate'").to_pylist()
    assert [(each["reason"], json.loads(each["evidence_json"])["step"]) for each in reasons] == [("card", 1)]


def test_a_page_is_redacted_like_any_text(lake: Any, store: Any, run_entry: Any, given: Any) -> None:
    secret = media(PartType.FILE, b"<p>pay with 4111 1111 1111 1111</p>", "text/html", lake)
    plain = media(PartType.FILE, b"[1] link", "text/x-axtree", lake)
    row = given.trajectory(
        given.say(Source.USER, "Open it."),
        Step(source=Source.ENVIRONMENT, content=(plain, secret)),
        given.say(Source.AGENT, "Done."),
    )
    store(trajectories=[row])
    ran = run_entry(Stage.REFINE, {"use": "redact_personal_data"}, WorkingSet(trajectories=(row.id,)))
    [made] = lake.trajectories([one for one in ran.after.trajectories if one != row.id])
    kept, changed = made.steps[1].content
    assert kept == plain
    assert (changed.type, changed.text) == (PartType.FILE, None)
    assert Blobs(lake).get(changed.sha256) == b"<p>pay with <card_1></p>"
