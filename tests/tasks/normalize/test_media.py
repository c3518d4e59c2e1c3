"""Media leave the rows: their content lies in the blob folder by its hash, whichever format they came in."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.trajectory import Part, Trajectory
from schemas.vocabulary import PartType, Stage
from tasks.normalize import media as taking
from tasks.operator import WorkingSet
from warehouse.blobs import Blobs, key_of
from warehouse.maintenance import examine

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28)
PNG64, WAV64 = base64.b64encode(PNG).decode(), base64.b64encode(WAV).decode()
SHA = hashlib.sha256(PNG).hexdigest()


def parts_of(row: Trajectory) -> list[Part]:
    return [p for s in row.steps for p in (*s.content, *(q for r in s.results for q in r.content))]


def chat(*content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}, {"role": "assistant", "content": "seen"}]}


def adp(*items: dict[str, Any]) -> dict[str, Any]:
    return {"id": "a", "content": [*items, {"class_": "message_action", "content": "seen"}], "details": {}}


def atif(*content: dict[str, Any]) -> dict[str, Any]:
    steps = [{"step_id": 1, "source": "user", "message": list(content)}]
    return {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": steps}


def write(folder: Path, record: dict[str, Any]) -> Path:
    file = folder / "logs" / "log.jsonl"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(record) + "\n")
    return file


def read(run_entry: Any, use: str, file: Path, **more: Any) -> Trajectory:
    ran = run_entry(Stage.NORMALIZE, {"use": use, "paths": [str(file)], **more})
    assert ran.report.n_dead == ran.report.n_pending == 0
    [row] = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert isinstance(row, Trajectory)
    return row


DATA_URL = f"data:image/png;base64,{PNG64}"
EMBEDDED = [
    ("openai_chat", chat({"type": "image_url", "image_url": {"url": DATA_URL}}), PNG),
    ("openai_chat", chat({"type": "image_url", "image_url": f"data:;base64,{PNG64}"}), PNG),
    ("openai_chat", chat({"type": "input_audio", "input_audio": {"data": WAV64, "format": "wav"}}), WAV),
    ("openai_chat", chat({"type": "file", "file": {"file_data": DATA_URL}}), PNG),
    ("openai_responses", {"input": chat({"type": "input_image", "image_url": DATA_URL})["messages"]}, PNG),
    (
        "anthropic_messages",
        chat({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG64}}),
        PNG,
    ),
    ("adp", adp({"class_": "image_observation", "content": DATA_URL, "source": "user"}), PNG),
    ("atif", atif({"type": "image", "source": {"path": DATA_URL, "media_type": "image/png"}}), PNG),
]


@pytest.mark.parametrize(
    ("use", "record", "data"), EMBEDDED, ids=[f"{use}-{n}" for n, (use, _, _) in enumerate(EMBEDDED)]
)
def test_embedded_content_becomes_a_blob(
    use: str, record: dict[str, Any], data: bytes, tmp_path: Path, run_entry: Any, lake: Any
) -> None:
    row = read(run_entry, use, write(tmp_path, record))
    [part] = [part for part in parts_of(row) if part.type is not PartType.TEXT]
    sha256 = hashlib.sha256(data).hexdigest()
    media_type = "image/png" if data is PNG else "audio/wav"
    assert (part.sha256, part.media_type, part.uri, part.text) == (sha256, media_type, key_of(sha256), None)
    assert Blobs(lake).get(sha256) == data
    assert row.provenance.lost_fields == ()
    assert examine(lake) == []
    rows = str(lake.sql("select * from trajectories").to_pylist())
    assert PNG64 not in rows and WAV64 not in rows


@pytest.mark.parametrize(
    ("use", "record"),
    [
        ("adp", adp({"class_": "image_observation", "content": "shots/1.png", "source": "environment"})),
        ("atif", atif({"type": "image", "source": {"path": "shots/1.png"}})),
        ("openai_chat", chat({"type": "image_url", "image_url": {"url": "shots/1.png"}})),
    ],
)
def test_a_path_beside_the_log_is_taken_in_by_its_content(
    use: str, record: dict[str, Any], tmp_path: Path, run_entry: Any, lake: Any
) -> None:
    file = write(tmp_path, record)
    (file.parent / "shots").mkdir()
    (file.parent / "shots" / "1.png").write_bytes(PNG)
    row = read(run_entry, use, file)
    [part] = [part for part in parts_of(row) if part.type is not PartType.TEXT]
    assert (part.sha256, part.media_type, part.uri) == (SHA, "image/png", "shots/1.png")
    assert Blobs(lake).get(SHA) == PNG
    assert row.provenance.lost_fields == ()


def test_what_a_path_may_not_reach_keeps_its_name_and_says_why(tmp_path: Path, run_entry: Any, lake: Any) -> None:
    (tmp_path / "outside.png").write_bytes(PNG)
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "link.png").symlink_to("../outside.png")
    (folder / "inner.png").symlink_to("real.png")
    (folder / "real.png").write_bytes(PNG)
    (folder / ".env").write_text("KEY=1")
    (folder / "secret.png").write_text("BM KEY=1, and GIF8, and so on")
    (folder / "sound.png").write_bytes(WAV)
    (folder / "folder.png").mkdir()
    os.mkfifo(folder / "pipe.png")
    asked = {
        "gone.png": "not_found",
        "../outside.png": "outside_of_the_folder",
        str(tmp_path / "outside.png"): "outside_of_the_folder",
        f"file://{tmp_path}/outside.png": "outside_of_the_folder",
        "link.png": "outside_of_the_folder",
        "/proc/self/environ": "outside_of_the_folder",
        ".env": "not_media",
        "secret.png": "not_media",
        "sound.png": "not_media",
        "folder.png": "no_file",
        "pipe.png": "no_file",
        "a\x00b.png": "not_found",
        "data:image/png;base64,@@": "no_base64",
        "inner.png": None,
        "real.png": None,
        "http://x.test/a.png": None,
        "s3://bucket/a.png": None,
    }
    images = [{"type": "image_url", "image_url": {"url": uri}} for uri in asked]
    row = read(run_entry, "openai_chat", write(tmp_path, chat(*images)))
    parts = row.steps[0].content
    assert [part.uri for part in parts] == list(asked)
    assert {part.uri for part in parts if part.sha256} == {"inner.png", "real.png"}
    said = {f"media {uri}: {why}" for uri, why in asked.items() if why and not uri.startswith("data:")}
    assert set(row.provenance.lost_fields) == said | {"media data:image/png;base64,…: no_base64"}
    assert Blobs(lake).stored() == {SHA}


@pytest.mark.parametrize("given", ["image/../../x", "text/html", "image", "image/png\r\nx: y", "audio/wav", "../x"])
def test_a_media_type_that_is_none_of_its_kind_is_named_and_not_kept(
    given: str, tmp_path: Path, run_entry: Any
) -> None:
    source = {"type": "base64", "media_type": given, "data": PNG64}
    row = read(run_entry, "anthropic_messages", write(tmp_path, chat({"type": "image", "source": source})))
    [part] = row.steps[0].content
    assert (part.media_type, part.sha256) == ("image/png", SHA)
    rest = base64.b64encode(b"words").decode()
    source = {"type": "base64", "media_type": given, "data": rest}
    row = read(run_entry, "anthropic_messages", write(tmp_path, chat({"type": "image", "source": source})))
    assert row.steps[0].content[0].media_type == "application/octet-stream"
    assert f"media_type {given!r} of image: not_its_type" in row.provenance.lost_fields
    url = f"data:{given};base64,{rest}"
    row = read(
        run_entry, "adp", write(tmp_path, adp({"class_": "image_observation", "content": url, "source": "user"}))
    )
    assert row.steps[0].content[0].media_type == "application/octet-stream"
    assert [lost for lost in row.provenance.lost_fields if "not_its_type" in lost]


def test_web_pages_are_blobs_and_plain_text_stays(tmp_path: Path, run_entry: Any, lake: Any) -> None:
    html, tree = "<p>" + "é" * 100_000, "[1] link"
    page = {
        "class_": "web_observation",
        "html": html,
        "axtree": tree,
        "url": "http://x.test",
        "image_observation": None,
    }
    row = read(run_entry, "adp", write(tmp_path, adp(page)))
    url, first, second = row.steps[0].content
    assert (url.uri, url.sha256) == ("http://x.test", None)
    assert [(p.type, p.media_type, p.text) for p in (first, second)] == [
        (PartType.FILE, "text/x-axtree", None),
        (PartType.FILE, "text/html", None),
    ]
    assert Blobs(lake).get(str(second.sha256)).decode() == html
    assert row.steps[1].content == (Part(text="seen"),)


def test_a_document_of_plain_text_stays_in_the_row(tmp_path: Path, run_entry: Any, lake: Any) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "words"}
    row = read(run_entry, "anthropic_messages", write(tmp_path, chat({"type": "document", "source": source})))
    assert row.steps[0].content == (Part(text="words", media_type="text/plain"),)
    assert Blobs(lake).stored() == set()


def test_images_in_the_columns_of_a_table_are_taken_in(tmp_path: Path, run_entry: Any, lake: Any) -> None:
    """The way `datasets` writes images: a struct of bytes and path."""
    image = {"type": "image", "image": {"bytes": PNG, "path": "x.png"}}
    record = {"messages": [{"role": "user", "content": [image]}, {"role": "assistant", "content": None}]}
    pq.write_table(pa.Table.from_pylist([record]), tmp_path / "t.parquet")
    row = read(run_entry, "openai_chat", tmp_path / "t.parquet")
    assert [(p.type, p.sha256, p.media_type) for p in row.steps[0].content] == [(PartType.IMAGE, SHA, "image/png")]
    assert Blobs(lake).get(SHA) == PNG


def test_the_same_content_in_many_records_lies_there_once(tmp_path: Path, run_entry: Any, lake: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": DATA_URL}}
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps({**chat(image), "id": f"r{n}"}) + "\n" for n in range(300)))
    ran = run_entry(Stage.NORMALIZE, {"use": "openai_chat", "paths": [str(file)]})
    assert ran.report.n_kept == 300
    assert Blobs(lake).stored() == {SHA}
    # A second run finds everything done.
    assert run_entry(Stage.NORMALIZE, {"use": "openai_chat", "paths": [str(file)]}).report.n_kept == 300
    assert len(lake.trajectories(ran.after.trajectories)) == 300


def test_content_beyond_the_limit_is_a_dead_letter_and_a_file_stays_a_name(
    tmp_path: Path, run_entry: Any, lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MAX_BLOB", 64)
    image = {"type": "image_url", "image_url": {"url": DATA_URL}}
    ran = run_entry(Stage.NORMALIZE, {"use": "openai_chat", "paths": [str(write(tmp_path, chat(image)))]})
    assert (ran.report.n_dead, ran.report.n_kept) == (1, 0)
    assert lake.sql("select reason from dead_letters")["reason"].to_pylist() == ["blob_too_large"]
    (tmp_path / "logs" / "big.png").write_bytes(PNG)
    row = read(run_entry, "openai_chat", write(tmp_path, chat({"type": "image_url", "image_url": {"url": "big.png"}})))
    assert row.provenance.lost_fields == ("media big.png: too_large",)
    assert Blobs(lake).stored() == set()


def test_a_batch_that_never_commits_leaves_a_blob_and_no_row(tmp_path: Path, make_context: Any, lake: Any) -> None:
    """The order is blob, then row: what a kill leaves behind is a blob that maintenance finds."""
    from schemas.vocabulary import Kind
    from tasks.registry import build

    image = {"type": "image_url", "image_url": {"url": DATA_URL}}
    importer: Any = build(Kind.IMPORTER, {"use": "openai_chat", "paths": [str(write(tmp_path, chat(image)))]})
    ctx = make_context()
    importer.run(importer.plan(WorkingSet(), ctx).items, ctx)
    assert Blobs(lake).stored() == {SHA}
    assert lake.sql("select id from trajectories").num_rows == 0


IMPORT = """
import sys
from pathlib import Path
from schemas.recipe import Recipe
from schemas.vocabulary import Stage
from tasks.batch import run_batch
from tasks.running import register
from tasks.context import Context
from tasks.operator import WorkingSet
from tasks.stage import plan_entry
from warehouse.lake import Lake
folder = Path(sys.argv[1])
entry = {"use": "openai_chat", "paths": [str(folder / "logs")]}
ctx = Context(Recipe(name="test", normalize=(entry,)), Lake.open(sys.argv[2]), sys.argv[3], folder, folder / "out")
register(ctx)
for planned in plan_entry(ctx, Stage.NORMALIZE, 0, WorkingSet()):
    print("planned", flush=True)
    for ref in planned.batches:
        run_batch(ref)
"""


@pytest.mark.slow
def test_an_import_killed_at_any_moment_names_no_blob_that_is_not_there(
    tmp_path: Path, run_entry: Any, lake: Any
) -> None:
    (tmp_path / "logs").mkdir()
    for part in range(4):
        lines = []
        for number in range(150):
            data = base64.b64encode(PNG + bytes([part, number]) * 20_000).decode()
            image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
            lines.append(json.dumps(chat(image)))
        (tmp_path / "logs" / f"{part}.jsonl").write_text("\n".join(lines))
    for attempt, pause in enumerate((0.1, 0.6, 1.5)):
        arguments = [sys.executable, "-c", IMPORT, str(tmp_path), lake.address, f"killed{attempt}"]
        with subprocess.Popen(arguments, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stdout.readline() == b"planned\n"
            time.sleep(pause)
            child.kill()
        assert not [trouble for trouble in examine(lake) if "are gone" in trouble]
    ran = run_entry(Stage.NORMALIZE, {"use": "openai_chat", "paths": ["logs"]})
    assert ran.report.n_kept == 600
    assert len(Blobs(lake).stored()) == 600
    assert examine(lake) == []
