"""Sessions: one jail for several programs, and snapshots of its working folder."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import RecordError, Unavailable, UserError
from tasks.sandbox import snapshots
from tasks.sandbox.jail import Frame
from tasks.sandbox.programs.languages import language
from tasks.sandbox.results import Limits, RunKind
from tasks.sandbox.sandbox import Sandbox
from tasks.sandbox.session import Session
from tasks.sandbox.state import state_dir
from tasks.sandbox.wire.protocol import Forged
from tests.tasks.sandbox.left import below, wait_for_none

# Prints every path with kind, permissions and content.
LISTING = """
import hashlib, os, stat
def show(folder):
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        found = os.lstat(path)
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISLNK(found.st_mode):
            print(ascii(path), "link", ascii(os.readlink(path)))
        elif stat.S_ISDIR(found.st_mode):
            print(ascii(path), "folder", oct(mode))
            os.chmod(path, 0o700)
            show(path)
            os.chmod(path, mode)
        elif stat.S_ISREG(found.st_mode):
            os.chmod(path, 0o600)
            with open(path, "rb") as source:
                print(ascii(path), "file", oct(mode), hashlib.sha256(source.read()).hexdigest())
            os.chmod(path, mode)
        else:
            print(ascii(path), "special")
show(b".")
"""
TRAPS = """
import os, socket
os.makedirs("a/b/c")
open("a/plain", "wb").write(bytes(range(256)) * 100)
open("a/tool", "w").write("#!/bin/sh")
os.chmod("a/tool", 0o755)
os.symlink("/etc/passwd", "host")
os.symlink("/", "a/root")
os.symlink("../../../../etc/shadow", "a/b/up")
os.symlink("loop", "loop")
os.symlink("nowhere", "dangling")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
open(b"name-\\xff\\n", "w").write("odd name")
open("empty", "w")
open("closed", "w").write("nobody reads this")
os.chmod("closed", 0)
os.mkdir("shut")
open("shut/inside", "w").write("x")
os.chmod("shut", 0)
os.link("a/plain", "second")
"""


@pytest.fixture
def jail(box: Sandbox) -> Iterator[Session]:
    with box.session(tools=("sh", "rm", "cat", "sleep")) as opened:
        yield opened


def test_the_folder_stays_from_one_program_to_the_next_and_nothing_else(jail: Session) -> None:
    assert jail.run_python("open('x', 'w').write('1'); y = 2").kind is RunKind.OK
    ran = jail.run_program("cat x; echo $y; echo new > z", language("sh"), files={"in": "3"})
    assert (ran.kind, ran.stdout) == (RunKind.OK, "1\n"), ran
    assert jail.run_python("import os; print(sorted(os.listdir()), 'y' in globals())").stdout == (
        "['in', 'main.sh', 'x', 'z'] False\n"
    )
    failed = jail.run_python("import sys; print(input()); sys.exit(3)", stdin="hello")
    assert (failed.kind, failed.exit, failed.stdout) == (RunKind.ERROR, 3, "hello\n")


def test_a_program_that_hangs_ends_and_the_session_goes_on(box: Sandbox) -> None:
    with box.session(Limits(wall_s=0.5, cpu_s=1, total_s=60)) as jail:
        assert jail.run_python("import time\ntime.sleep(60)").kind is RunKind.TIMEOUT
        assert jail.run_python("print(1)").stdout == "1\n"


def test_what_runs_on_stands_still_between_calls_and_ends_with_the_session(box: Sandbox) -> None:
    counter = "import time\nn = 0\nwhile True:\n    n += 1\n    open('n', 'w').write(str(n))\n    time.sleep(0.01)"
    code = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {counter!r}])\ntime.sleep(0.5)"
    read = "import time\ntime.sleep({0})\nprint(open('n').read())"
    others = below(os.getpid())
    with box.session() as jail:
        assert jail.run_python(code, keep=True).kind is RunKind.OK
        first = int(jail.run_python(read.format(0), keep=True).stdout)
        time.sleep(0.5)
        second = int(jail.run_python(read.format(0), keep=True).stdout)
        third = int(jail.run_python(read.format(0.5)).stdout)
        assert first <= second < first + 25 <= third + 15 and third > second, (first, second, third)
        # Without `keep` it was ended.
        assert jail.run_python(read.format(0.2)).stdout == jail.run_python(read.format(0)).stdout
    assert not wait_for_none(lambda: below(os.getpid(), others), 10.0)


def test_a_bound_of_the_whole_ends_the_session(box: Sandbox, watched: Sandbox) -> None:
    for service in (box, watched):
        with service.session(Limits(output_kb=16)) as jail:
            flood = jail.run_python("while True: print('x' * 1000)")
            assert flood.reason == "output_limit"
            with pytest.raises(Unavailable, match="output"):
                jail.run_python("print(1)")
    with box.session(Limits(total_s=1.0)) as jail:
        assert jail.run_python("import time\ntime.sleep(30)").kind is RunKind.TIMEOUT
        with pytest.raises(Unavailable, match="session_over"):
            jail.snapshot()
    with box.session() as jail:
        pass
    with pytest.raises(Unavailable, match="closed"):
        jail.run_python("print(1)")


def test_a_session_outlives_the_thread_that_opened_it(box: Sandbox) -> None:
    from threading import Thread

    opened: list[Session] = []
    thread = Thread(target=lambda: opened.append(box.session()))
    thread.start()
    thread.join()
    time.sleep(0.2)
    with opened[0] as jail:
        assert jail.run_python("print(1)").stdout == "1\n"


def test_a_snapshot_restores_an_equal_tree_whatever_traps_it_holds(jail: Session, box: Sandbox) -> None:
    assert jail.run_python(TRAPS).kind is RunKind.OK
    before = jail.run_python(LISTING).stdout
    assert before.count("special") == 2
    taken = jail.snapshot()
    kept = snapshots.load(state_dir(), taken)
    assert kept.left_out == 2
    assert not {each.name for each in kept.entries} & {b"fifo", b"socket"}
    links = {each.name: each.content for each in kept.entries if each.kind == "l"}
    assert links[b"host"] == b"/etc/passwd" and links[b"a/b/up"] == b"../../../../etc/shadow"
    assert jail.run_python(LISTING).stdout == before
    wreck = "chmod -R 700 . 2>/dev/null; rm -rf a second host; echo changed > empty; mkdir -p new/deep"
    jail.run_program(wreck, language("sh"))
    wrecked = jail.run_python(LISTING).stdout
    jail.restore(taken)
    wanted = [line for line in before.splitlines() if not line.endswith("special")]
    assert jail.run_python(LISTING).stdout.splitlines() == wanted != wrecked.splitlines()
    with box.session() as other:
        other.run_python("import os\nos.mkdir('old')\nopen('old/x', 'w')\nos.symlink('/opt', 'a')")
        other.restore(taken)
        assert other.run_python(LISTING).stdout.splitlines() == wanted
        assert snapshots.load(state_dir(), other.snapshot()).entries == kept.entries


NAMES = st.sampled_from(["a", "b", "ä", "c d", "-x", "e.py"])
TREES = st.recursive(
    st.tuples(st.just("f"), st.binary(max_size=300), st.sampled_from([0o600, 0o755, 0o000, 0o444]))
    | st.tuples(st.just("l"), st.sampled_from(["a", "../..", "/etc/passwd", "/work"]), st.just(0o777)),
    lambda inner: st.tuples(
        st.just("d"), st.dictionaries(NAMES, inner, max_size=4), st.sampled_from([0o700, 0o555, 0])
    ),
    max_leaves=10,
)
MAKE = """
import os, sys
def make(folder, tree):
    for name, (kind, content, mode) in tree.items():
        path = os.path.join(folder, name)
        if kind == "f":
            open(path, "wb").write(content)
        elif kind == "l":
            os.symlink(content, path)
            continue
        else:
            os.mkdir(path)
            make(path, content)
        os.chmod(path, mode)
make(".", eval(sys.stdin.read()))
"""


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=st.dictionaries(NAMES, TREES, max_size=5))
def test_any_tree_comes_back_equal_and_has_one_id(box: Sandbox, tree: object) -> None:
    with box.session() as jail:
        assert jail.run_python(MAKE, stdin=repr(tree)).kind is RunKind.OK
        taken, before = jail.snapshot(), jail.run_python(LISTING).stdout
        empty = "0" * 32
        with pytest.raises(UserError):
            jail.restore(empty)
        jail.run_python("open('more', 'w')")
        jail.restore(taken)
        assert jail.run_python(LISTING).stdout == before
        assert jail.snapshot() == taken


def test_too_much_is_no_snapshot_and_the_session_goes_on(box: Sandbox) -> None:
    with box.session(Limits(disk_mb=8)) as jail:
        jail.run_python("for n in range(7): open(f'f{n}', 'wb').write(bytes(1 << 20))")
        assert jail.snapshot()
        jail.run_python("import os\nfor n in range(8000): open(f'e{n}', 'w')")
        with pytest.raises(RecordError, match="snapshot_too_large"):
            jail.snapshot()
        # A sparse file is as large as it says.
        jail.run_python("import os\nfor name in os.listdir(): os.unlink(name)\nopen('s', 'wb').truncate(16 << 20)")
        with pytest.raises(RecordError, match="snapshot_too_large"):
            jail.snapshot()
        assert jail.run_python("print(1)").stdout == "1\n"


def test_a_damaged_or_foreign_snapshot_is_not_restored(jail: Session) -> None:
    jail.run_python("import os\nopen('only-here', 'wb').write(os.urandom(8))")
    taken = jail.snapshot()
    path = state_dir() / "snapshots" / f"{taken}.snap"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(UserError, match="damaged"):
        jail.restore(taken)
    path.unlink()
    for name in (taken, "../leases/x", "", "/etc/passwd"):
        with pytest.raises(UserError, match="No snapshot"):
            jail.restore(name)
    assert jail.run_python("print(1)").stdout == "1\n"


def _frame(name: bytes, content: bytes = b"") -> Frame:
    return b"F", len(name).to_bytes(2, "big") + name + content


@pytest.mark.parametrize(
    "frames",
    [
        [_frame(b"f644 ../x")],
        [_frame(b"f644 /etc/x")],
        [_frame(b"f644 a/x")],
        [_frame(b"l777 a", b"/etc"), _frame(b"f644 a/passwd")],
        [_frame(b"f644 a"), _frame(b"f644 a")],
        [_frame(b"f4755 a")],
        [_frame(b"c666 null")],
        [_frame(b"f644 ")],
        [_frame(b"f644 a\0b")],
        [_frame(b"d755 ."), _frame(b"f644 ./x")],
        [(b"F", b"")],
        [(b"O", b"x")],
        [(b"J", b"[-2]")],
        [(b"J", b"no json")],
    ],
)
def test_a_forged_snapshot_is_refused(frames: list[Frame]) -> None:
    with pytest.raises(Forged):
        snapshots.read(frames)


def test_snapshots_are_kept_by_content(tmp_path: Path) -> None:
    one = snapshots.read([_frame(b"d755 a"), _frame(b"f644 a/x", b"1")])
    first, second = snapshots.save(tmp_path, one), snapshots.save(tmp_path, one)
    assert first == second
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == [f"{first}.snap"]
    assert snapshots.load(tmp_path, first) == one
    other = snapshots.read([_frame(b"d755 a"), _frame(b"f755 a/x", b"1")])
    assert snapshots.save(tmp_path, other) != first
