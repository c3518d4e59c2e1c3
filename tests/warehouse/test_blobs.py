"""The blob folder: content by its hash, once, whole or not at all; orphans go after the grace period only."""

import hashlib
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from schemas.errors import LakeError, RecordError
from schemas.trajectory import Part, Step, ToolResult, Trajectory
from schemas.vocabulary import PartType, Source
from tests.warehouse.filled import STAMP, make_trajectories
from warehouse.blobs import Blobs, key_of
from warehouse.lake import Lake
from warehouse.maintenance import examine, maintain

ROOT = Path(__file__).parents[2]
NOW = timedelta(seconds=-1)


def seen(*hashes: str) -> Trajectory:
    """A trajectory with images in a turn and in a result."""
    [row] = make_trajectories(1)
    parts = tuple(Part(type=PartType.IMAGE, sha256=sha256) for sha256 in hashes)
    steps = (Step(source=Source.USER, content=parts[:1]), Step(source=Source.ENVIRONMENT, content=()))
    result = Step(source=Source.ENVIRONMENT, results=(ToolResult(content=parts[1:]),))
    return msgspec.structs.replace(row, steps=(*row.steps, *steps, result))


def grow_old(lake: Lake, sha256: str) -> None:
    past = time.time() - 100_000
    os.utime(Path(lake.address) / key_of(sha256), (past, past))


def test_content_lies_once_under_its_hash(lake: Lake) -> None:
    blobs = Blobs(lake)
    sha256 = blobs.put(b"pixels")
    assert sha256 == hashlib.sha256(b"pixels").hexdigest() == blobs.put(b"pixels")
    file = Path(lake.address) / "blobs" / sha256[:2] / sha256
    assert file.read_bytes() == b"pixels" == blobs.get(sha256)
    assert [path for path in Path(lake.address, "blobs").rglob("*") if path.is_file()] == [file]
    assert blobs.stored() == {sha256}


def test_what_is_missing_damaged_or_no_hash_is_named(lake: Lake) -> None:
    blobs = Blobs(lake)
    for asked in ("0" * 64, "../catalog.sqlite", "0" * 63):
        with pytest.raises(RecordError, match="blob_missing"):
            blobs.get(asked)
    sha256 = blobs.put(b"whole")
    (Path(lake.address) / key_of(sha256)).write_bytes(b"other")
    with pytest.raises(RecordError, match="blob_damaged"):
        blobs.get(sha256)
    (Path(lake.address) / key_of(sha256)).write_bytes(b"torn by a crash")
    assert blobs.get(blobs.put(b"whole")) == b"whole"
    with Lake.open(lake.address, read_only=True) as reader:
        assert Blobs(reader).get(sha256) == b"whole"
        with pytest.raises(LakeError, match="reading only"):
            Blobs(reader).put(b"more")


def test_many_threads_put_the_same_content(lake: Lake) -> None:
    data = [bytes([number % 8]) * 200_000 for number in range(64)]
    threads = [threading.Thread(target=Blobs(lake).put, args=(each,)) for each in data]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {Blobs(lake).get(sha256) for sha256 in Blobs(lake).stored()} == set(data)
    assert not list(Path(lake.address).glob("blobs/??/.*"))


def test_only_old_blobs_that_no_row_names_are_removed(lake: Lake) -> None:
    blobs = Blobs(lake)
    spoken, returned, old, young, again = (blobs.put(word) for word in (b"a", b"b", b"c", b"d", b"e"))
    lake.append(STAMP, {"trajectories": [seen(spoken, returned)]})
    for sha256 in (spoken, returned, old, again):
        grow_old(lake, sha256)
    assert blobs.put(b"e") == again, "who puts it again keeps it from being removed"
    assert any("1 blobs of killed imports" in trouble and old in trouble for trouble in examine(lake))
    assert maintain(lake).deleted_blobs == 1
    assert blobs.stored() == {spoken, returned, young, again}
    assert examine(lake) == []
    assert maintain(lake, keep_files=NOW).deleted_blobs == 2
    assert blobs.stored() == {spoken, returned}


def test_a_blob_that_rows_name_and_nobody_has_is_reported(lake: Lake) -> None:
    sha256 = Blobs(lake).put(b"a")
    lake.append(STAMP, {"trajectories": [seen(sha256)]})
    (Path(lake.address) / key_of(sha256)).unlink()
    assert examine(lake) == [f"1 blobs that rows name are gone, such as {sha256}: import their source again"]


def test_a_killed_writer_leaves_whole_blobs_only(lake: Lake) -> None:
    script = (
        "import sys\nfrom warehouse.lake import Lake\nfrom warehouse.blobs import Blobs\n"
        "blobs = Blobs(Lake.open(sys.argv[1]))\nprint('up', flush=True)\n"
        "number = 0\nwhile True:\n    blobs.put(number.to_bytes(4) * 500_000)\n    number += 1\n"
    )
    for pause in (0.02, 0.05, 0.11):
        with subprocess.Popen([sys.executable, "-c", script, lake.address], cwd=ROOT, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(pause)
            child.kill()
    blobs = Blobs(lake)
    for sha256 in blobs.stored():
        assert len(blobs.get(sha256)) == 2_000_000
    maintain(lake, keep_files=NOW)
    assert not [path for path in Path(lake.address, "blobs").rglob("*") if path.is_file()]
