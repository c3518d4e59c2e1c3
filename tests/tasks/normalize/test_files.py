"""Files that are no data are refused where they are named, with what to do about them."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from schemas.errors import UserError
from tasks.normalize.guess import guess
from tasks.normalize.source.files import expand

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
