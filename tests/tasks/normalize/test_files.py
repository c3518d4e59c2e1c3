"""Files that are no data are refused where they are named, with what to do about them."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from schemas.errors import UserError
from tasks.normalize.guessing.guess import guess
from tasks.normalize.guessing.kinds import refuse_mixed
from tasks.normalize.guessing.look import is_empty
from tasks.normalize.source.files import contents_of, expand
from tests.warehouse.filled import STAMP, make_tasks
from warehouse.lake import Lake

RECORD = b'{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}\n'


@pytest.mark.parametrize(
    ("name", "content", "todo"),
    [
        ("a.jsonl.gz", gzip.compress(RECORD, mtime=0), "gunzip"),
        ("a.jsonl.bz2", bz2.compress(RECORD), "bunzip2"),
        ("a.jsonl.xz", lzma.compress(RECORD), "unxz"),
        # The suffix may lie.
        ("a.jsonl", gzip.compress(RECORD, mtime=0), "gunzip"),
        ("a.csv", b"prompt,answer\n", "read_csv"),
    ],
)
def test_compressed_files_and_csv_are_refused(tmp_path: Path, name: str, content: bytes, todo: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=todo):
        expand((name,), tmp_path)


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n")
    with pytest.raises(UserError, match="is empty"):
        guess(tmp_path / "a.jsonl")


def test_a_folder_is_guessed_by_its_first_file(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "b.jsonl").write_bytes(RECORD)
    assert guess(tmp_path / "logs").format == "openai_chat"


def test_what_describes_data_and_exports_below_a_folder_are_left_aside(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("a.jsonl", "dataset_info.json", "out/b.jsonl"):
        (tmp_path / name).write_bytes(RECORD)
    (tmp_path / "README.md").write_text("# logs")
    (tmp_path / "out" / "manifest.json").write_text('{"files": [], "gristmill": 1}')
    assert [file.name for file in expand((str(tmp_path),), tmp_path)] == ["a.jsonl"]
    assert [path.name for path in contents_of(tmp_path).beside] == ["README.md", "dataset_info.json", "out"]
    assert [file.path.name for file in expand((str(tmp_path / "out"),), tmp_path)] == ["b.jsonl"]


def test_a_lake_is_left_aside_in_a_folder_and_refused_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(RECORD)
    with Lake.open(tmp_path / "lake") as lake:
        lake.append(STAMP, {"tasks": make_tasks(1)})
    assert list((tmp_path / "lake").rglob("*.parquet"))
    assert [file.name for file in expand((str(tmp_path),), tmp_path)] == ["a.jsonl"]
    assert contents_of(tmp_path).beside == [tmp_path / "lake"]
    with pytest.raises(UserError, match="'lake' is a lake"):
        expand(("lake",), tmp_path)


def test_several_formats_are_refused_with_a_command_for_each(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(RECORD)
    (tmp_path / "b.jsonl").write_text('{"conversations": [{"from": "human", "value": "hi"}]}\n')
    with pytest.raises(UserError, match=r"gristmill import '[^ ]*b\.jsonl' --dataset NAME   # sharegpt"):
        refuse_mixed([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert refuse_mixed([tmp_path / "a.jsonl"]) == []


def test_a_path_that_names_nothing_is_told_as_given(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'no\.jsonl' in the working directory, /"):
        expand(("no.jsonl",), tmp_path, "the working directory")


@pytest.mark.parametrize(("content", "empty"), [(b"", True), (b" \n\r\n", True), (b"[ ]\n", True), (RECORD, False)])
def test_a_file_without_a_record_is_known_and_passed_over(tmp_path: Path, content: bytes, empty: bool) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "b.jsonl").write_bytes(RECORD)
    assert is_empty(tmp_path / "a.jsonl") is empty
    assert guess(tmp_path / "a.jsonl", tmp_path / "b.jsonl").format == "openai_chat"


def test_a_link_to_a_folder_is_named_and_a_closed_folder_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "else").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(RECORD)
    (tmp_path / "else" / "b.jsonl").write_bytes(RECORD)
    (tmp_path / "in" / "more").symlink_to(tmp_path / "else")
    found = contents_of(tmp_path / "in")
    assert (found.data, found.beside) == ([tmp_path / "in" / "a.jsonl"], [tmp_path / "in" / "more"])
    with pytest.raises(FileNotFoundError):
        contents_of(tmp_path / "absent")
