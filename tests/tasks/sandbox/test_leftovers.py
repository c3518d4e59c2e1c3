"""Nothing stays behind: no process, mount, cgroup, file or descriptor, also when the worker is killed outright."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tasks.sandbox.results import Call, Limits, RunKind
from tasks.sandbox.sandbox import Sandbox
from tests.tasks.sandbox.left import below, descriptors, survivors, wait_for_none

ROOT = Path(__file__).resolve().parents[3]
DAEMON = """
import os, sys, time
def f(x):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            for fd in range(10):
                try: os.close(fd)
                except OSError: pass
            time.sleep(600)
    open("/tmp/left", "w").write("x" * 1000000)
    return x
"""
WORKER = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from tasks.sandbox.results import Call, Limits
from tasks.sandbox.sandbox import Sandbox
box = Sandbox.start(2, watchdog=sys.argv[2] == "watchdog")
print("ready", flush=True)
code = '''
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
libc.prctl(1, 0, 0, 0, 0)
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
def f():
    print("running", flush=True)
    time.sleep(600)
'''
box.call_functions(code, [Call(entry="f")], Limits(wall_s=300, total_s=300))
"""


def _mounts() -> int:
    # Of ours: others come and go on the same machine.
    return sum("gristmill" in line for line in Path("/proc/self/mountinfo").read_text().splitlines())


def test_daemons_of_a_call_end_with_it(box: Sandbox) -> None:
    others = below(os.getpid())
    results = box.call_functions(DAEMON, [Call(entry="f", args=[i]) for i in range(3)]).results
    assert [each.value for each in results] == [0, 1, 2]
    assert not wait_for_none(lambda: below(os.getpid(), others), 10.0)


def test_a_thousand_descriptors_later_all_are_closed(box: Sandbox) -> None:
    others = below(os.getpid())
    box.call_functions("def f(): return 1", [Call(entry="f")])
    # A jail that waits holds its pipes until it is used or nobody came.
    assert not wait_for_none(lambda: below(os.getpid(), others), 10.0)
    before, mounts = descriptors(), _mounts()
    for number in range(30):
        limits = Limits(wall_s=0.2) if number % 10 == 0 else Limits()
        code = "import time\ndef f(): time.sleep(5)" if number % 10 == 0 else "def f(): return 1"
        box.call_functions(code, [Call(entry="f")], limits)
        box.run_python("import os; os.fork()", limits=limits)
    assert not wait_for_none(lambda: below(os.getpid(), others), 10.0)
    # The service closes a jail's pipes a moment after its last process has ended.
    assert not wait_for_none(lambda: descriptors() - before, 10.0)
    assert _mounts() == mounts


def test_one_candidate_finds_nothing_of_another(box: Sandbox) -> None:
    box.run_python("[open(f'{place}/secret', 'w').write('x') for place in ('/tmp', '.')]")
    found = box.run_python("import os; print(os.listdir('/tmp'), os.listdir('.'))")
    assert found.stdout == "['main.py', 'work'] []\n"


def _start_worker(mode: str, folder: Path) -> "subprocess.Popen[bytes]":
    script = folder / "worker.py"
    script.write_text(WORKER)
    worker = subprocess.Popen([sys.executable, str(script), str(ROOT), mode], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"ready\n"
    return worker


def _jail_of(worker: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = psutil.Process(worker.pid).children(recursive=True)
        # bwrap, the runner, the daemon and the call.
        if len(found) >= 4:
            return found
        time.sleep(0.02)
    raise AssertionError("the jail did not start")


def _held(state: Path, pid: int) -> list[dict[str, Any]]:
    leases = [json.loads(path.read_text()) for path in (state / "leases").glob("*.json")]
    return [each for each in leases if each["pid"] == pid]


@pytest.mark.parametrize("mode", ["kernel", "watchdog"])
def test_sigkill_with_jails_that_wait_and_a_session(mode: str, tmp_path: Path) -> None:
    """The worker dies with jails prepared ahead, with an open session, and with what runs on in it."""
    from tasks.sandbox.state import state_dir

    script = tmp_path / "worker.py"
    script.write_text(
        "import sys, time\nsys.path.insert(0, sys.argv[1])\nfrom tasks.sandbox.sandbox import Sandbox\n"
        "from tasks.sandbox.results import Limits\n"
        "box = Sandbox.start(3, watchdog=sys.argv[2] == 'watchdog', warm=3)\n"
        "jail = box.session()\n"
        "jail.run_python('import os, time\\nif os.fork() == 0: time.sleep(600)', keep=True)\n"
        "for size in (8, 9, 10): box._box._pool.want(box._box.shape(Limits(disk_mb=size), __import__("
        "'tasks.sandbox.shape', fromlist=['x']).Needs()))\n"
        "time.sleep(1)\nprint('ready', flush=True)\ntime.sleep(600)\n"
    )
    worker = subprocess.Popen([sys.executable, str(script), str(ROOT), mode], stdout=subprocess.PIPE)
    assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
    jails = psutil.Process(worker.pid).children(recursive=True)
    # Three that wait (bwrap and its runner each), the session's and the program in it.
    assert len(jails) >= 9, jails
    (lease,) = _held(state_dir(), worker.pid)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert not survivors(jails)
    Sandbox.start(1).close()
    assert not _held(state_dir(), worker.pid)
    assert not [path for path in lease["cgroups"] if Path(path).exists()]


@pytest.mark.parametrize("mode", ["kernel", "watchdog"])
def test_sigkill_of_the_worker_leaves_nothing(
    mode: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.sandbox.state import state_dir

    state = state_dir()
    folder = tmp_path_factory.mktemp("worker")
    worker = _start_worker(mode, folder)
    jail = _jail_of(worker)
    (lease,) = _held(state, worker.pid)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert not survivors(jail)
    # What the kernel does not clean up by itself, the next start does.
    Sandbox.start(1).close()
    assert not _held(state, worker.pid)
    assert not [path for path in lease["cgroups"] if Path(path).exists()]


def test_sigkill_between_starts_of_jails(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The worker dies at moments when a jail is being made, not only while one runs."""
    script = tmp_path_factory.mktemp("worker") / "worker.py"
    script.write_text(
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom tasks.sandbox.sandbox import Sandbox\n"
        "box = Sandbox.start(1)\nprint('ready', flush=True)\nwhile True: box.run_python('pass')\n"
    )
    for number in range(6):
        worker = subprocess.Popen([sys.executable, str(script), str(ROOT)], stdout=subprocess.PIPE)
        assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
        time.sleep(0.1 + number * 0.013)
        jail = psutil.Process(worker.pid).children(recursive=True)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        assert not survivors(jail)
    Sandbox.start(1).close()


def test_close_removes_cgroups_and_lease_and_may_be_repeated() -> None:
    from tasks.sandbox.state import state_dir

    before = len(_held(state_dir(), os.getpid()))
    opened = Sandbox.start(1)
    newest = _held(state_dir(), os.getpid())
    assert len(newest) == before + 1
    assert opened.run_python("pass").kind is RunKind.OK
    opened.close()
    opened.close()
    assert len(_held(state_dir(), os.getpid())) == before
    if opened.mode == "cgroup":
        assert any(each["cgroups"] for each in newest)
    assert not [path for each in newest for path in each["cgroups"] if Path(path).exists() and before == 0]


def test_a_jail_cut_off_while_it_starts_is_ended_by_the_next_start() -> None:
    """The outer process is killed before it lets the inner one go on, again and again at other moments."""
    from tasks.sandbox import bwrap
    from tasks.sandbox.programs import interpreter
    from tasks.sandbox.shape import Shape
    from tasks.sandbox.state import state_dir

    binary, root = bwrap.find(state_dir()).path, interpreter.prepare(state_dir()).root
    line = bwrap.argv(binary, root, Shape(disk_mb=8), None, 0, 1)
    at = line.index("--seccomp")
    del line[at : at + 4]
    cut_off: list[psutil.Process] = []
    for number in range(200):
        started = subprocess.Popen([*line, "/opt/python/bin/python3", "-c", ""], env={})
        time.sleep(number % 40 * 0.0002)
        cut_off += psutil.Process(started.pid).children()
        started.kill()
        started.wait()
        cut_off = [each for each in cut_off if each.is_running()]
        if len(cut_off) >= 3:
            break
    # With every processor busy it may not come about; then there is nothing to see.
    assert not survivors(cut_off, 0.5), len(cut_off)
