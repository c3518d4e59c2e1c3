"""Containers as jails: the command line, the refusal without a daemon, the protocol, and the real thing if there is one."""

# ruff: noqa: E501

import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import Unavailable, UserError
from tasks.sandbox import container
from tasks.sandbox.programs import interpreter
from tasks.sandbox.results import Call, Limits, RunKind
from tasks.sandbox.sandbox import BACKEND, IMAGE, UNSAFE, Sandbox
from tasks.sandbox.shape import Shape
from tasks.sandbox.state import state_dir

ROOT = Path(__file__).resolve().parents[3]
# Other test workers share the engine, and each removes its image at its end.
MADE = f"gristmill-test-{os.getpid()}:jail"
ESCAPES: list[Any] = runpy.run_path(str(Path(__file__).with_name("escapes.py")))["ESCAPES"]
# The image has files and a /proc and /dev of its own, and what is printed is caught in a file.
OTHERWISE = {
    *("read_etc_passwd", "list_home", "list_usr", "list_var_tmp", "list_sys", "read_mounts", "only_the_interpreter"),
    *("walk_up", "read_init_environ", "reopen_descriptors", "write_memory_of_runner", "poison_runner", "flood_output"),
    *("inherited_descriptors",),
}
# Stands in for a client: the same words, and a real jail around what it is asked to run.
STAND_IN = """#!/bin/bash
echo "$@" | head -c 300 >> {log}; echo >> {log}
case "$1" in
  version) echo 99.1; exit 0;;
  image) echo '[{{"Id": "sha256:abc"}}]'; exit 0;;
  rm|ps) exit 0;;
esac
while [ $# -gt 0 ]; do
  case "$1" in
    --env) export "$2"; shift 2;;
    --entrypoint) program="$2"; shift 3; break;;
    *) shift;;
  esac
done
exec {bwrap} --unshare-all --unshare-user --uid 1000 --gid 1000 --cap-drop ALL --die-with-parent --as-pid-1 \\
  --ro-bind / / --proc /proc --dev /dev --tmpfs /sys --dir /sys/class/net --tmpfs /tmp "$program" "$@"
"""


def test_the_command_line_of_a_container() -> None:
    shape = Shape(disk_mb=64, hash_seed=3, memory_mb=512, processes=34)
    for tool in container.BACKENDS:
        words = container.argv(f"/usr/bin/{tool}", "gristmill-1", "python:3.12", "python3", shape, 61_000)
        line = " ".join(words)
        assert words[:2] == [f"/usr/bin/{tool}", "run"] and words[-3:] == ["--entrypoint", "python3", "python:3.12"]
        for part in (
            "--network none",
            "--read-only ",
            "--cap-drop ALL",
            "--security-opt no-new-privileges",
            "--pids-limit 34",
            "--memory 512m --memory-swap 512m",
            "--ipc none",
            "--user 61000:61000",
            "--pull never",
            "--rm --interactive",
            "--log-driver none",
            "--env PYTHONHASHSEED=3",
            "--tmpfs /tmp:rw,noexec,nosuid,nodev,size=64m,mode=1777",
        ):
            assert part in line, part
        for part in ("--privileged", "--volume", "--mount", "--device", "--publish", "--env-file", "host"):
            assert part not in line.replace("--hostname", ""), part
    assert "--read-only-tmpfs=false" in line


def _answers(tool: str) -> bool:
    return subprocess.run([tool, "info"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker client on this machine")
def test_without_a_daemon_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if _answers("docker"):
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.delenv(UNSAFE, raising=False)
    with pytest.raises(Unavailable, match="no docker daemon answers") as refused:
        Sandbox.start(1, backend="docker", image="python:3.12")
    assert UNSAFE in refused.value.detail and "bubblewrap" in refused.value.detail


def test_a_client_that_is_not_there_an_image_and_a_backend_that_are_not_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(UNSAFE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for tool in container.BACKENDS:
        with pytest.raises(Unavailable, match=f"{tool} is not installed"):
            Sandbox.start(1, backend=tool, image="python:3.12")
    for image in ("", "--privileged"):
        with pytest.raises(UserError, match=IMAGE):
            Sandbox.start(1, backend="docker", image=image)
    with pytest.raises(UserError, match="Known: bubblewrap, docker, podman"):
        Sandbox.start(1, backend="chroot", image="x")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client called docker whose containers are real jails; gives its log."""
    log, folder = tmp_path / "log", tmp_path / "bin"
    folder.mkdir()
    bwrap = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    if bwrap is None:
        pytest.skip("no system bwrap")
    (folder / "docker").write_text(STAND_IN.format(log=log, bwrap=bwrap))
    (folder / "docker").chmod(0o755)
    interpreter_folder = Path(getattr(sys, "_base_executable", sys.executable)).resolve().parent
    monkeypatch.setenv("PATH", f"{folder}:{interpreter_folder}:{os.environ['PATH']}")
    monkeypatch.setenv(BACKEND, "docker")
    monkeypatch.setenv(IMAGE, "python:3.12")
    return log


def test_requests_and_answers_go_over_standard_input_and_output(stand_in: Path) -> None:
    box = Sandbox.start(1, warm=0)
    try:
        assert box.mode == "container" and "docker-99.1" in box.version() and "image-" in box.version()
        ran = box.run_python("import sys\nprint(input())\nprint('bad', file=sys.stderr)\nsys.exit(3)", stdin="ä\n")
        assert (ran.kind, ran.exit, ran.stdout, ran.stderr) == (RunKind.ERROR, 3, "ä\n", "bad\n"), ran
        code = "def f(x):\n    print('said', x)\n    return [x, {'a': None}]"
        called = box.call_functions(code, [Call(entry="f", args=[n]) for n in range(3)])
        assert [each.value for each in called.results] == [[n, {"a": None}] for n in range(3)], called
        assert called.output == "said 0\nsaid 1\nsaid 2\n"
        assert box.run_python("import time\ntime.sleep(60)", limits=Limits(wall_s=0.5)).kind is RunKind.TIMEOUT
        flood = box.run_python("while True: print('x' * 1000)", limits=Limits(output_kb=16, file_mb=1))
        assert (flood.reason, len(flood.stdout)) == ("output_limit", 16 << 10)
        # What a candidate writes where the results go is output, not a result.
        forged = box.run_python('import os\nos.write(1, b\'\\0\\0\\0\\x14J[-2,"ok","","",0]\')\nos._exit(5)')
        assert (forged.kind, forged.exit) == (RunKind.ERROR, 5)
        ran = box.run_python("open('x', 'w').write('1')", files={"in": "2"}, collect=True)
        assert ran.files == {"in": b"2", "x": b"1"}
    finally:
        box.close()
    assert "rm --force gristmill-" in stand_in.read_text()


def test_a_session_in_a_container(stand_in: Path) -> None:
    box = Sandbox.start(1, warm=1)
    try:
        with box.session() as jail:
            assert jail.run_python("open('x', 'w').write('1')\nprint('first')").stdout == "first\n"
            taken = jail.snapshot()
            assert jail.run_python("import os\nos.unlink('x')\nprint('second')").stdout == "second\n"
            jail.restore(taken)
            assert jail.run_python("print(open('x').read())").stdout == "1\n"
    finally:
        box.close()


def test_what_the_image_cannot_give_is_said(stand_in: Path) -> None:
    from tasks.sandbox.programs.languages import language

    box = Sandbox.start(1, warm=0)
    try:
        with pytest.raises(Unavailable, match="no_interpreter"):
            box.run_program("echo 1", language("sh"))
    finally:
        box.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A service of an engine that runs here, with an image made of the copied interpreter."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-image-", dir="/tmp"))
    patch = pytest.MonkeyPatch()
    # The configuration is only for engines whose default runtime does not start on this machine.
    (folder / "containers.conf").write_text('[engine]\nruntime = "runc"\n')
    root = folder / "root"
    shutil.copytree(
        interpreter.prepare(state_dir()).root,
        root,
        symlinks=True,
        ignore=lambda at, names: names if at.endswith("/dev") else (),
    )
    (root / "tmp").chmod(0o1777)
    why = "no container engine answers here"
    opened: Sandbox | None = None
    for tool in container.BACKENDS:
        if shutil.which(tool) is None or not _answers(tool):
            continue
        changes = ["ENV PATH=/opt/python/bin", "ENV LD_LIBRARY_PATH=/opt/python/lib"]
        options = [part for change in changes for part in ("--change", change)]
        made = subprocess.run(
            f"tar -c . | {tool} import {' '.join(map(repr, options))} - {MADE}",
            shell=True,
            cwd=root,
            capture_output=True,
            check=False,
        )
        if made.returncode:
            continue
        for configured in (False, True):
            if configured:
                patch.setenv("CONTAINERS_CONF", str(folder / "containers.conf"))
            try:
                opened = Sandbox.start(2, backend=tool, image=MADE, warm=0)
                break
            except Unavailable as error:
                why = str(error)[:300]
        if opened is not None:
            break
    if opened is None:
        shutil.rmtree(folder)
        pytest.skip(why)
    yield opened
    opened.close()
    subprocess.run([tool, "rmi", "--force", MADE], capture_output=True, check=False)
    patch.undo()
    shutil.rmtree(folder)


def test_real_containers_run_code_and_hold_it(real: Sandbox) -> None:
    assert real.run_python("print(input()[::-1])", stdin="abc\n").stdout == "cba\n"
    called = real.call_functions("def f(x): return x * 2", [Call(entry="f", args=[n]) for n in range(5)])
    assert [each.value for each in called.results] == [0, 2, 4, 6, 8]
    assert real.run_python("import time\ntime.sleep(60)", limits=Limits(wall_s=1)).kind is RunKind.TIMEOUT
    assert real.run_python("open('/tmp/a', 'w').write('x')").kind is RunKind.OK
    assert real.run_python("import os\nprint(os.listdir('/tmp'))").stdout == "['main.py', 'work']\n"


@pytest.mark.slow
@pytest.mark.parametrize("escape", [each for each in ESCAPES if each.name not in OTHERWISE], ids=lambda each: each.name)
def test_an_escape_from_a_real_container_is_refused(escape: Any, real: Sandbox) -> None:
    limits = Limits(wall_s=escape.wall_s, cpu_s=1, memory_mb=256, processes=16)
    result = real.call_functions(escape.code, [Call(entry="attack")], limits).results[0]
    if result.kind is RunKind.OK:
        assert str(result.value).startswith("refused"), result
    else:
        assert result.kind.value in (*escape.ends, "error"), result


def test_the_next_start_removes_the_containers_of_a_killed_owner(real: Sandbox, tmp_path: Path) -> None:
    engine = real._box.engine
    assert isinstance(engine, container.Container)
    script = tmp_path / "worker.py"
    script.write_text(
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom tasks.sandbox.sandbox import Sandbox\n"
        "from tasks.sandbox.results import Limits\n"
        "box = Sandbox.start(1, backend=sys.argv[2], image=sys.argv[3], warm=0)\nprint(box._box.engine.prefix, flush=True)\n"
        "box.run_python('import time\\ntime.sleep(600)', limits=Limits(wall_s=600, total_s=600))\n"
    )
    tool = Path(engine.path).name
    worker = subprocess.Popen([sys.executable, str(script), str(ROOT), tool, MADE], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    prefix = worker.stdout.readline().strip()

    def left() -> str:
        return subprocess.run(
            [tool, "ps", "-aq", "--filter", f"name=^{prefix}-"], capture_output=True, text=True, check=True
        ).stdout

    end = time.monotonic() + 30
    while not left() and time.monotonic() < end:
        time.sleep(0.1)
    assert left()
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    Sandbox.start(1, backend=tool, image=MADE, warm=0).close()
    assert not left()
    assert not list((state_dir() / "leases").glob(f"{prefix}*"))
