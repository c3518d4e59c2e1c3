"""The record of judgements: the first one counts, in every process, and a kill leaves no half of one."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schemas.errors import FaultError
from schemas.ids import digest
from warehouse.judgements import JudgementCache
from warehouse.lake import Lake

_WRITER = """
import sys
from schemas.ids import digest
from warehouse.judgements import JudgementCache
from warehouse.lake import Lake
cache = JudgementCache.for_lake(Lake.open(sys.argv[1]))
print("ready", flush=True)
for number in range(1_000_000):
    key = digest(str(number))
    cache.record(key, key.encode() * 50)
"""


def test_the_first_record_counts_for_everyone(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        one, other = JudgementCache.for_lake(lake), JudgementCache.for_lake(lake)
        key = digest("a")
        assert one.get(key) is None
        assert one.record(key, b"first") == b"first"
        assert other.record(key, b"second") == b"first"
        assert other.get(key) == b"first"
        with pytest.raises(FaultError):
            one.get("not a key")
        one.close()
        other.close()


def test_a_kill_in_the_middle_leaves_whole_records_only(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake")
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path / "lake")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    cache = JudgementCache.for_lake(lake)
    found = [cache.get(digest(str(number))) for number in range(20_000)]
    there = found.index(None)
    assert there > 0
    assert all(each == digest(str(number)).encode() * 50 for number, each in enumerate(found[:there]))
    assert not any(found[there:])
    assert cache.record(digest("after"), b"kill") == b"kill"
    cache.close()
    lake.close()
