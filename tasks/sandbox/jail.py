"""One jail from start to end: spawn, hand over the request, read what comes, bound it, leave nothing behind.

    jail = Jail(slot, launch)
    jail.start()                      # may be done ahead: nothing untrusted is inside yet
    jail.ask(request, limits, ...)    # once, or several times for a session
    ended = jail.end()

The kernel kills the jail when the thread that started it ends (bubblewrap's --die-with-parent), and the end of its
first process ends every other process in its namespace.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from tasks.sandbox.bounds import processes
from tasks.sandbox.bounds.cgroup import Cgroup
from tasks.sandbox.results import Limits
from tasks.sandbox.wire.protocol import BOUNDED
from tasks.sandbox.wire.pump import Pump, pull

_START_S = 30.0
_FILES = 100_000
Frame = tuple[bytes, bytes]


@dataclass
class Slot:
    """What a jail at a time may use alone: a user id (root only) and a cgroup (where there are any)."""

    number: int
    uid: int | None = None
    group: Cgroup | None = None


class Launch(NamedTuple):
    """How a jail is started.

    command: from (filter descriptor, info descriptor) to the command line up to the runner's argument. program: the
    system call filter. kind: jail, open (no jail at all) or container, whose results come on its standard output.
    kill: ends what a signal to the started process does not. env: of the command, empty for a jail.
    """

    command: Callable[[int, int], list[str]]
    program: bytes = b""
    kind: str = "jail"
    kill: Callable[[], object] | None = None
    env: Mapping[str, str] = {}


@dataclass
class Ended:
    """What was seen of a jail. `killed` names the bound that ended it from outside ("" when it ended itself)."""

    started: bool = False
    killed: str = ""
    exit: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    frames: list[Frame] = field(default_factory=list)
    out_of_memory: bool = False
    duration_s: float = 0.0
    cpu_s: float = 0.0


class Jail:
    """A jail. Whoever starts it must `end` it, which returns only after every process of it is gone."""

    def __init__(self, slot: Slot, launch: Launch) -> None:
        self.slot, self._launch = slot, launch
        self._ended = Ended()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: dict[str, int] = {}
        self._child = self._child_fd = self._outer = -1
        self._kills = 0
        self._fds: list[int] = []
        self._up = False
        self._began = 0.0

    def start(self) -> bool:
        """Spawns it and waits until its runner asks for a request; whether it does. Nothing is left after an error."""
        try:
            self._process, self._pipes = self._spawn()
            self._up = self._ready(self._process)
        except BaseException:
            self.end(kill=True)
            raise
        return self._up

    def ask(
        self,
        request: bytes,
        limits: Limits,
        deadline: Callable[[bool], float],
        frame_limit: int,
        last: Callable[[Frame], bool] | None = None,
    ) -> Ended:
        """One exchange: hands over the request and reads what comes. With `last` the jail goes on after that frame.

        deadline: wall-clock seconds allowed for it, given whether the code has been loaded.
        """
        self._began = self._began or time.monotonic()
        if not self._up:
            self._kill()
            self._ended.stderr += pull(self._pipes["err"], wait_s=0.1)
            return self._ended
        pump = Pump(
            {name: self._pipes[name] for name in ("out", "err", "result") if name in self._pipes},
            self._pipes["in"],
            self._outer,
            request,
            limits.output_kb << 10,
            frame_limit,
            self._close,
            last,
        )
        watched = self.slot.group is None and self._launch.kind != "container"
        ended = self._ended
        ended.killed = pump.run(deadline, (lambda: self._over(limits)) if watched else None)
        # The runner's first frame says that its limits hold; without it, nothing of the candidate has run.
        first = 0 if ended.started else 1
        ended.started = ended.started or pump.frames[:1] == [BOUNDED]
        ended.frames = pump.frames[first:]
        ended.stdout, ended.stderr = bytes(pump.caught["out"]), bytes(pump.caught["err"])
        if self._launch.kind == "container":
            self._unpack(limits.output_kb << 10)
        return ended

    def end(self, *, kill: bool = False) -> Ended:
        """Waits for a natural end where nothing was killed, kills otherwise; closes and accounts for everything."""
        try:
            if self._process is not None:
                self._finish(self._process, kill=kill)
                self._process, self._up = None, False
        finally:
            for fd in self._fds:
                os.close(fd)
            self._fds.clear()
        self._ended.duration_s = time.monotonic() - (self._began or time.monotonic())
        return self._ended

    @property
    def alive(self) -> bool:
        """Whether it still waits for a request."""
        return self._up and not _finished(self._outer, 0.0)

    def _unpack(self, cap: int) -> None:
        """A container's standard output comes in a frame."""
        caught = [body for kind, body in self._ended.frames if kind == b"O"]
        self._ended.frames = [frame for frame in self._ended.frames if frame[0] != b"O"]
        self._ended.stdout = b"".join(caught)[:cap]
        if sum(map(len, caught)) > cap and not self._ended.killed:
            # As if it had been ended when it wrote too much: how it went on does not count.
            self._ended.killed = "output"
            self._ended.frames = [frame for frame in self._ended.frames if not frame[1].startswith(b"[-2,")]

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._fds += ends
        return ends

    def _close(self, fd: int) -> None:
        self._fds.remove(fd)
        os.close(fd)

    def _spawn(self) -> tuple["subprocess.Popen[bytes]", dict[str, int]]:
        (in_r, in_w), (out_r, out_w), (err_r, err_w), (result_r, result_w), (info_r, info_w), (code_r, code_w) = (
            self._pipe() for _ in range(6)
        )
        os.write(code_w, self._launch.program)
        self._close(code_w)
        contained = self._launch.kind == "container"
        process = subprocess.Popen(
            [*self._launch.command(code_r, info_w), "1" if contained else str(result_w)],
            stdin=in_r,
            stdout=result_w if contained else out_w,
            stderr=err_w,
            pass_fds=(result_w, info_w, code_r) if self._launch.kind == "jail" else (result_w,),
            env=self._launch.env,
            cwd="/",
            # Without a jail the group is all that can be ended together.
            start_new_session=self._launch.kind == "open",
        )
        self._outer = os.pidfd_open(process.pid)
        self._fds.append(self._outer)
        for fd in (in_r, out_w, err_w, result_w, info_w, code_r):
            self._close(fd)
        return process, {"in": in_w, "out": out_r, "err": err_r, "result": result_r, "info": info_r}

    def _ready(self, process: "subprocess.Popen[bytes]") -> bool:
        """Waits until the runner asks for its request, then puts it into its cgroup."""
        waiting = select.poll()
        waiting.register(self._pipes["result"], select.POLLIN)
        if not waiting.poll(_START_S * 1000) or os.read(self._pipes["result"], 1) != b"R":
            return False
        try:
            child = int(msgspec.json.decode(os.read(self._pipes["info"], 4096))["child-pid"])
        except (msgspec.MsgspecError, KeyError, ValueError):
            child = process.pid
        self._child = child
        try:
            self._child_fd = os.pidfd_open(child)
            self._fds.append(self._child_fd)
            if self.slot.group is not None:
                self._kills = self.slot.group.kills()
                self.slot.group.add(child)
        except OSError as error:
            self._ended.stderr = f"the jail's first process could not be bounded: {error}".encode()
            return False
        return True

    def _over(self, limits: Limits) -> str:
        sample = processes.usage(self._child)
        if sample.processes > limits.processes + 1:
            return "processes"
        if sample.memory > limits.memory_mb << 20:
            return "memory"
        # An empty file takes about a kilobyte of the kernel's memory, which only a cgroup would count.
        return "files" if self._launch.program and processes.files_below(self._child) > _FILES else ""

    def _kill(self) -> None:
        if self._launch.kill is not None:
            self._launch.kill()
        # First the jail's own first process: bwrap then reaps it and ends, and nothing is left to anybody else.
        _kill(self._child_fd)
        if self._child_fd < 0 or not _finished(self._outer, 5.0):
            _kill(self._outer)

    def _finish(self, process: "subprocess.Popen[bytes]", *, kill: bool) -> None:
        if kill or self._ended.killed or not self._ended.started or not _finished(self._outer, 5.0):
            self._kill()
        if self._launch.kind == "open":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = self._ended.exit = os.waitstatus_to_exitcode(status)
        self._ended.cpu_s = used.ru_utime + used.ru_stime
        if self._child_fd >= 0:
            _finished(self._child_fd, 10.0)
            if self.slot.group is not None:
                self._ended.out_of_memory = self.slot.group.kills() > self._kills


def _kill(pidfd: int) -> None:
    # Not Popen.kill: it would reap the process, and with it the account of what it used.
    if pidfd >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _finished(pidfd: int, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
