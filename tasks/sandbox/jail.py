"""One jail from start to end: spawn, hand over the request, read what comes, bound it, leave nothing behind.

Everything happens in the calling thread. The kernel kills the jail when that thread's process dies (bubblewrap's
--die-with-parent), and the end of its first process ends every other process in its namespace.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from tasks.sandbox import processes
from tasks.sandbox.cgroup import Cgroup
from tasks.sandbox.protocol import BOUNDED
from tasks.sandbox.pump import Pump, pull
from tasks.sandbox.results import Limits

_START_S = 30.0
_FILES = 100_000


@dataclass
class Slot:
    """What a jail at a time may use alone: a user id (root only) and a cgroup (where there are any)."""

    number: int
    uid: int | None = None
    group: Cgroup | None = None


@dataclass
class Ended:
    """What was seen of a jail. `killed` names the bound that ended it from outside ("" when it ended itself)."""

    started: bool = False
    killed: str = ""
    exit: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    frames: list[tuple[bytes, bytes]] = field(default_factory=list)
    out_of_memory: bool = False
    duration_s: float = 0.0
    cpu_s: float = 0.0


class Jail:
    """A running jail. Use `run`; it returns only after every process of the jail is gone."""

    def __init__(self, slot: Slot, limits: Limits, command: Callable[[int, int], list[str]], program: bytes) -> None:
        """command: from (filter descriptor, info descriptor) to the command line up to the runner's argument."""
        self.slot, self.limits = slot, limits
        self._command, self._program = command, program
        self._ended = Ended()
        self._child = self._child_fd = self._outer = -1
        self._kills = 0
        self._fds: list[int] = []

    def run(self, request: bytes, deadline: Callable[[bool], float], frame_limit: int) -> Ended:
        """Starts, runs and ends the jail.

        deadline: wall-clock seconds allowed in all, given whether the code has been loaded.
        """
        began = time.monotonic()
        process = None
        try:
            process, pipes = self._spawn()
            if self._ready(process, pipes):
                self._exchange(pipes, request, deadline, frame_limit)
            else:
                _kill(self._outer)
                self._ended.stderr += pull(pipes["err"], wait_s=0.1)
        finally:
            if process is not None:
                self._end(process)
            for fd in self._fds:
                os.close(fd)
            self._fds.clear()
        self._ended.duration_s = time.monotonic() - began
        return self._ended

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
        os.write(code_w, self._program)
        self._close(code_w)
        process = subprocess.Popen(
            [*self._command(code_r, info_w), str(result_w)],
            stdin=in_r,
            stdout=out_w,
            stderr=err_w,
            pass_fds=(result_w, info_w, code_r),
            env={},
            cwd="/",
            # Without a jail (unsafe) the group is all that can be ended together.
            start_new_session=not self._program,
        )
        self._outer = os.pidfd_open(process.pid)
        self._fds.append(self._outer)
        for fd in (in_r, out_w, err_w, result_w, info_w, code_r):
            self._close(fd)
        return process, {"in": in_w, "out": out_r, "err": err_r, "result": result_r, "info": info_r}

    def _ready(self, process: "subprocess.Popen[bytes]", pipes: dict[str, int]) -> bool:
        """Waits until the runner asks for its request, then puts it into its cgroup."""
        waiting = select.poll()
        waiting.register(pipes["result"], select.POLLIN)
        if not waiting.poll(_START_S * 1000) or os.read(pipes["result"], 1) != b"R":
            return False
        try:
            child = int(msgspec.json.decode(os.read(pipes["info"], 4096))["child-pid"])
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

    def _exchange(
        self,
        pipes: dict[str, int],
        request: bytes,
        deadline: Callable[[bool], float],
        frame_limit: int,
    ) -> None:
        pump = Pump(
            {name: pipes[name] for name in ("out", "err", "result")},
            pipes["in"],
            self._outer,
            request,
            self.limits.output_kb << 10,
            frame_limit,
            self._close,
        )
        self._ended.killed = pump.run(deadline, self._over if self.slot.group is None else None)
        # The runner's first frame says that its limits hold; without it, nothing of the candidate has run.
        self._ended.started = pump.frames[:1] == [BOUNDED]
        self._ended.frames = pump.frames[1:]
        self._ended.stdout, self._ended.stderr = bytes(pump.caught["out"]), bytes(pump.caught["err"])

    def _over(self) -> str:
        sample = processes.usage(self._child)
        if sample.processes > self.limits.processes + 1:
            return "processes"
        if sample.memory > self.limits.memory_mb << 20:
            return "memory"
        # An empty file takes about a kilobyte of the kernel's memory, which only a cgroup would count.
        return "files" if self._program and processes.files_below(self._child) > _FILES else ""

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Waits for a natural end where nothing was killed, kills otherwise, and waits until all is gone."""
        if self._ended.killed or not self._ended.started or not _finished(self._outer, 5.0):
            # First the jail's own first process: bwrap then reaps it and ends, and nothing is left to anybody else.
            _kill(self._child_fd)
            if self._child_fd < 0 or not _finished(self._outer, 5.0):
                _kill(self._outer)
        if not self._program:
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
