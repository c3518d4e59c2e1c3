"""Many executions with workers killed at random: nothing leaks.

GRISTMILL_SOAK sets the number of executions; .ci/run uses the default, a long soak is 20000.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tasks.sandbox.results import Call, Limits
from tasks.sandbox.sandbox import Sandbox
from tasks.sandbox.state import state_dir
from tests.tasks.sandbox.left import below, wait_for_none

ROOT = Path(__file__).resolve().parents[3]
EXECUTIONS = int(os.environ.get("GRISTMILL_SOAK", "1500"))
WORKER = """
import random, sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, sys.argv[1])
from tasks.sandbox.results import Call, Limits
from tasks.sandbox.sandbox import Sandbox
box = Sandbox.start(2)
codes = [
    "def f(x): return x",
    "import os\\ndef f(x):\\n    os.fork()\\n    return x",
    "import os, time\\ndef f(x):\\n    if os.fork() == 0:\\n        os.setsid()\\n        time.sleep(9)\\n    return x",
    "import time\\ndef f(x): time.sleep(0.3)",
    "def f(x): open('/tmp/x', 'wb').write(bytes(10_000_000))",
    "import os\\nos._exit(0)",
]
def one(number):
    box.call_functions(random.choice(codes), [Call(entry="f", args=[number])] * 5, Limits(wall_s=0.2))
    print(number, flush=True)
with ThreadPoolExecutor(2) as threads:
    list(threads.map(one, range(10**9)))
"""


def _leases_of(pids: set[int]) -> list[str]:
    """Lease files of these processes; those of other runs on this machine are none of ours."""
    found = (state_dir() / "leases").glob("gristmill-*.json")
    return [path.name for path in found if int(path.name.split("-")[1]) in pids]


def _resources() -> dict[str, int]:
    return {
        # Mounts below our folders only: others come and go on the same machine.
        "mounts": sum("gristmill" in line for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "temporary": len(list(Path("/tmp").glob("gristmill-unsafe-*"))),
    }


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_nothing_leaks_over_many_executions_and_kills(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    box = Sandbox.start(1)
    box.call_functions("def f(): return 1", [Call(entry="f")])
    before = _resources()
    chance = random.Random(7)
    done = 0
    killed: set[int] = set()
    while done < EXECUTIONS:
        worker = subprocess.Popen([sys.executable, str(script), str(ROOT)], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        for _ in range(chance.randrange(1, 120)):
            worker.stdout.readline()
            done += 1
        time.sleep(chance.random() * 0.05)
        jails = psutil.Process(worker.pid).children(recursive=True)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        killed.add(worker.pid)
        alive = wait_for_none(lambda jails=jails: [p for p in jails if p.is_running() and p.status() != "zombie"])
        assert not alive, (done, len(killed), alive)
    Sandbox.start(1).close()
    assert not _leases_of(killed)
    assert _resources() == before
    box.close()
    assert not wait_for_none(lambda: below(os.getpid()))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_memory_of_the_service_stays_flat(box: Sandbox) -> None:
    code = "def f(x): return [x] * 1000"

    def run(count: int) -> int:
        for number in range(count):
            box.call_functions(code, [Call(entry="f", args=[number])] * 5, Limits())
        return psutil.Process().memory_info().rss

    first = run(100)
    assert run(max(200, EXECUTIONS // 5)) - first < 8 << 20
