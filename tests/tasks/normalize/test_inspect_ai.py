"""A log that Inspect AI itself has written is read whole.

Inspect AI lives in an environment of its own; GRISTMILL_INSPECT_PYTHON names its interpreter. Without one, and where
`inspect-ai` is not installed here, the tests of its logs are skipped.
"""

import importlib.util
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from schemas.errors import RecordError
from schemas.trajectory import text_of
from schemas.vocabulary import PartType, Stage
from tasks.normalize.source.archive import opened

WRITER = Path(__file__).with_name("inspect_writer.py")


def interpreter() -> str | None:
    here = sys.executable if importlib.util.find_spec("inspect_ai") else None
    return os.environ.get("GRISTMILL_INSPECT_PYTHON") or here


@pytest.mark.skipif(interpreter() is None, reason="no Inspect AI")
@pytest.mark.parametrize("form", ["json", "eval"])
def test_a_log_of_its_own_is_read(form: str, tmp_path: Path, run_entry: Any) -> None:
    made = subprocess.run(
        [str(interpreter()), str(WRITER), str(tmp_path), form], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    ran = run_entry(Stage.NORMALIZE, {"use": "inspect_log", "paths": [made.stdout.split()[-1]]})
    assert ran.report.n_dead == 0
    first, second = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert [(row.source_id, row.outcome.success, row.policy.model) for row in (first, second)] == [
        ("s1", True, "mockllm/model"),
        ("s2", False, "mockllm/model"),
    ]
    for row, arguments, result, said in ((first, '{"a":2,"b":3}', "5", "5"), (second, '{"a":4,"b":5}', "9", "8")):
        assert [step.source for step in row.steps] == ["system", "user", "agent", "agent"]
        [call] = row.steps[2].tool_calls
        assert (call.name, call.arguments_json, call.id_generated) == ("add", arguments, False)
        assert [(r.call_id, text_of(r.content)) for r in row.steps[2].results] == [(call.id, result)]
        assert text_of(row.steps[3].content) == said
        assert row.steps[3].usage is not None and row.steps[3].usage.completion_tokens == 5
    text, image = second.steps[1].content
    assert (text.text, image.type, image.media_type) == ("4 + 5?", PartType.IMAGE, "image/png")
    assert image.sha256 is not None


def packed(method: int, data: bytes = b'{"a": 1}') -> bytes:
    """An archive of one member; by Zstandard it is written by hand, as Python here cannot."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED if method == 93 else method) as archive:
        content = pa.compress(data, codec="zstd", asbytes=True) if method == 93 else data
        archive.writestr("samples/1.json", content)
    raw = bytearray(sink.getvalue())
    if method == 93:
        import zlib

        for mark, at, size_at in ((b"PK\x03\x04", 8, 14), (b"PK\x01\x02", 10, 16)):
            start = raw.index(mark)
            raw[start + at : start + at + 2] = (93).to_bytes(2, "little")
            raw[start + size_at : start + size_at + 4] = zlib.crc32(data).to_bytes(4, "little")
            raw[start + size_at + 8 : start + size_at + 12] = len(data).to_bytes(4, "little")
    return bytes(raw)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 93])
def test_members_of_every_method_are_read(method: int) -> None:
    with opened(packed(method), 100) as archive:
        assert archive.names == ["samples/1.json"]
        assert archive.read("samples/1.json") == b'{"a": 1}'


def test_a_damaged_archive_is_one_record_that_cannot_be_read() -> None:
    whole = packed(93)
    for at in range(len(whole)):
        broken = whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]
        try:
            with opened(broken, 100) as archive:
                assert all(archive.read(name) == b'{"a": 1}' for name in archive.names)
        except RecordError as error:
            assert error.reason in ("bad_archive", "too_long")
        except KeyError:
            pytest.fail("a damaged archive went through")
    with pytest.raises(RecordError, match="too_long"), opened(packed(93), 7) as archive:
        archive.read("samples/1.json")
