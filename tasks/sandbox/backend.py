"""Slots, command line, lease and proof behind the sandbox service."""

import os
import queue
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import FaultError, Unavailable
from tasks.sandbox import bwrap, cgroup, interpreter, leases, seccomp
from tasks.sandbox.jail import Ended, Jail, Slot, unsafe_command
from tasks.sandbox.protocol import calls_request
from tasks.sandbox.reading import read_calls
from tasks.sandbox.results import Call, Limits, RunKind
from tasks.sandbox.state import state_dir

_FLAGS = ("-P", "-s", "-S", "-B", "-X", "utf8")


class Backend:
    """Slots, command line and lease behind a Sandbox."""

    def __init__(
        self,
        slots: list[Slot],
        python: interpreter.Interpreter,
        backend: str,
        mode: str,
        binary: str,
        lease: leases.Lease | None,
    ) -> None:
        self.python, self.backend, self.mode, self._binary, self._lease = python, backend, mode, binary, lease
        self.shared = mode != "unsafe" and os.geteuid() != 0
        self._pid = os.getpid()
        self._program = seccomp.program() if mode != "unsafe" else b""
        self._slots: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        self._all = slots
        for slot in slots:
            self._slots.put(slot)

    @classmethod
    def contained(cls, slots: int, *, watchdog: bool) -> "Backend":
        """The bubblewrap backend, proven by one run."""
        state = state_dir()
        binary = bwrap.find(state)
        python = interpreter.prepare(state)
        name = f"gristmill-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        names = [f"{name}-{number}" for number in range(slots)]
        lease = leases.acquire(state, slots, names if not watchdog else [name])
        groups = [None if watchdog else cgroup.make(each) for each in names]
        if None in groups:
            for group in groups:
                if group is not None:
                    group.remove()
            groups = [None] * slots
        uids = lease.held.uids
        every = [Slot(number, uids[number] if uids else None, groups[number]) for number in range(slots)]
        mode = "watchdog" if groups[0] is None else "cgroup"
        box = cls(every, python, f"bubblewrap-{binary.version}", mode, binary.path, lease)
        try:
            box.prove()
        except BaseException:
            box.close()
            raise
        return box

    @classmethod
    def open(cls, slots: int) -> "Backend":
        """No jail at all: what the user asked for by the unsafe flag."""
        base = Path(getattr(sys, "_base_executable", sys.executable))
        python = interpreter.Interpreter(
            root=Path("/"),
            python=str(base),
            runner=str(Path(__file__).with_name("runner.py")),
            version=f"{sys.implementation.name}-{sys.version.split()[0]}",
        )
        return cls([Slot(number) for number in range(slots)], python, "unsafe", "unsafe", "", None)

    @contextmanager
    def _slot(self) -> Iterator[Slot]:
        if os.getpid() != self._pid:
            raise FaultError("A sandbox cannot be used across a fork: start one in the new process.")
        slot = self._slots.get()
        try:
            yield slot
        finally:
            self._slots.put(slot)

    def _command(self, slot: Slot, limits: Limits, seccomp_fd: int, info_fd: int) -> list[str]:
        if self.mode == "unsafe":
            return [*unsafe_command(self.python.python, Path(self.python.runner), limits)]
        outer = bwrap.argv(self._binary, self.python.root, limits, slot.uid, seccomp_fd, info_fd, shared=self.shared)
        return [*outer, self.python.python, *_FLAGS, self.python.runner]

    def run(self, request: bytes, limits: Limits, load_s: float, span_s: float, frame_limit: int) -> Ended:
        """One jail. Once more when it could not even start: that is never the candidate's doing."""
        with self._slot() as slot:
            for _ in range(2):
                if slot.group is not None:
                    slot.group.limit(limits)
                jail = Jail(slot, limits, lambda code, info: self._command(slot, limits, code, info), self._program)
                ended = jail.run(request, lambda loaded: span_s if loaded else load_s, frame_limit)
                if ended.started:
                    break
            return ended

    def prove(self) -> None:
        """One run whose answer shows that the protections are in place; Unavailable when they are not."""
        limits = Limits(wall_s=30.0)
        request = calls_request(_PROBE, [Call(entry="probe")], limits, None, shared=self.shared, stop_on_timeout=True)
        found = read_calls(self.run(request, limits, 30.0, 60.0, 1 << 16), 1, limits, self.mode).results[0]
        if found.kind is not RunKind.OK:
            raise Unavailable("sandbox", f"bubblewrap does not work here: {found.detail or found.reason}. {_HINT}")
        missing = [name for name, good in found.value.items() if good is not True] if found.value else ["everything"]
        if missing:
            raise Unavailable("sandbox", f"The jail does not hold here: {', '.join(missing)}. {_HINT}")

    def close(self) -> None:
        """Removes cgroups and lease; in a forked child it does nothing, they are the parent's."""
        if os.getpid() == self._pid and self._lease is not None:
            self._lease.release()
            self._lease = None


_HINT = (
    "Unprivileged user namespaces must be allowed (sysctl kernel.unprivileged_userns_clone=1, "
    "user.max_user_namespaces > 0; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0)."
)

_PROBE = """
import os
def _refused(action, *errors):
    try:
        action()
    except OSError:
        return True
    return False
def probe():
    return {
        "user id": os.getuid() == 1000,
        "first process": os.getppid() == 1,
        "read-only root": _refused(lambda: os.mkdir("/x")),
        "no host files": sorted(os.listdir("/")) == ["dev", "lib64", "opt", "proc", "tmp", "work"]
            or not set(os.listdir("/")) & {"root", "home", "usr", "var", "etc", "sys", "run", "mnt", "srv"},
        "system call filter": _refused(lambda: os.chroot("/tmp")) and _refused(lambda: os.memfd_create("x")),
        "environment": sorted(os.environ) == ["HOME", "LANG", "LD_LIBRARY_PATH", "PWD", "PYTHONHASHSEED"]
            or not [name for name in os.environ if name.startswith(("GRISTMILL", "PATH", "AWS", "OPENAI"))],
    }
"""
