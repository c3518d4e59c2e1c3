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
from tests.tasks.sandbox.left import below, descriptors, survivors, wait_for_none

ROOT = Path(__file__).resolve().parents[3]
EXECUTIONS = int(os.environ.get("GRISTMILL_SOAK", "500"))
WORKER = """
import random, sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, sys.argv[1])
from tasks.sandbox.programs.languages import language
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
    kind = random.random()
    if kind < 0.1:
        box.run_program("sleep 5 & echo x", language("sh"), limits=Limits(wall_s=1))
    elif kind < 0.13:
        with box.session(Limits(wall_s=1, total_s=20), loopback=True) as jail:
            jail.run_python("import os, time\\nopen('x', 'w')\\nif os.fork() == 0: time.sleep(60)", keep=True)
            jail.restore(jail.snapshot())
    else:
        limits = Limits(wall_s=0.2, disk_mb=random.choice((64, 64, 64, 32)))
        box.call_functions(random.choice(codes), [Call(entry="f", args=[number])] * 5, limits)
    print(number, flush=True)
with ThreadPoolExecutor(2) as threads:
    list(threads.map(one, range(10**9)))
"""


def _leases_of(pids: set[int]) -> list[str]:
    """Lease files of these processes; those of other runs on this machine are none of ours."""
    found = (state_dir() / "leases").glob("gristmill-*.json")
    return [path.name for path in found if int(path.name.split("-")[1]) in pids]


def _resources(temporary: Path) -> set[str]:
    """What this process holds, by identity: what services of other tests close meanwhile cannot hide what is new."""
    # Mounts below our folders only: others come and go on the same machine.
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "gristmill" in line]
    threads = [f"thread {path.name}" for path in Path("/proc/self/task").iterdir()]
    return {*mounts, *descriptors(), *threads, *map(str, temporary.iterdir())}


def _cgroups_of(pids: set[int]) -> list[str]:
    """Folders of cgroups that these processes made."""
    names = tuple(f"gristmill-{pid}-" for pid in pids)
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup" in line]
    return [str(path) for mount in mounts for path in Path(mount).rglob("gristmill-*") if path.name.startswith(names)]


def _halves_of(pids: set[int]) -> list[str]:
    """Folders and files that these processes had begun to write in the sandbox's own folder."""
    state = state_dir()
    halves = [*state.glob("building-*"), *(state / "leases").glob("*.tmp"), *(state / "snapshots").glob("*.tmp")]
    return [path.name for path in halves if any(str(pid) in path.name for pid in pids)]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_nothing_leaks_over_many_executions_and_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    # Of this test's processes only: what other test workers make meanwhile is none of ours.
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    # Verifiers' workers of earlier tests go on as long as this process.
    others = below(os.getpid())
    # Without jails that wait, whose pipes come and go.
    box = Sandbox.start(1, warm=0)
    box.call_functions("def f(): return 1", [Call(entry="f")])
    before, memory = _resources(temporary), psutil.Process().memory_info().rss
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
        assert not survivors(jails), (done, len(killed))
    Sandbox.start(1).close()
    assert not _leases_of(killed)
    assert not _cgroups_of(killed)
    assert not _halves_of(killed)
    # The service closes a jail's pipes a moment after its last process has ended.
    assert not wait_for_none(lambda: _resources(temporary) - before)
    assert psutil.Process().memory_info().rss - memory < 32 << 20
    assert box.run_python("print(1)").stdout == "1\n"
    box.close()
    assert not wait_for_none(lambda: below(os.getpid(), others))


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
