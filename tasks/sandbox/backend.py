"""Slots, command line, lease and proof behind the sandbox service."""

import os
import queue
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import FaultError, Unavailable
from tasks.sandbox import bwrap, cgroup, interpreter, leases, seccomp
from tasks.sandbox.jail import Ended, Jail, Slot
from tasks.sandbox.packages import INSIDE as PACKAGES_INSIDE
from tasks.sandbox.packages import Packages
from tasks.sandbox.packages import prepare as prepare_packages
from tasks.sandbox.protocol import Place, calls_request
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
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._packages: dict[tuple[str, ...], Packages] = {}
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
        lease = leases.acquire(state, slots, [name] if watchdog else names, python.root)
        try:
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
            box.prove()
        except BaseException:
            lease.release()
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

    def packages(self, names: tuple[str, ...]) -> Packages | None:
        """The copied packages, made once; None for no names."""
        if not names:
            return None
        with self._lock:
            if names not in self._packages:
                self._packages[names] = prepare_packages(state_dir(), names)
            return self._packages[names]

    def _command(
        self, slot: Slot, limits: Limits, seccomp_fd: int, info_fd: int, packages: Packages | None
    ) -> list[str]:
        if self.mode == "unsafe":
            return [self.python.python, *_FLAGS, self.python.runner]
        root = packages.root if packages else None
        outer = bwrap.argv(self._binary, self.python.root, limits, slot.uid, seccomp_fd, info_fd, root)
        return [*outer, self.python.python, *_FLAGS, self.python.runner]

    @contextmanager
    def _place(self, slot: Slot, packages: Packages | None) -> Iterator[Place]:
        """The folder that the runner works in: the jail's own /tmp, or without a jail one that is removed after."""
        if self.mode != "unsafe":
            yield Place(own_uid=slot.uid is not None, packages=PACKAGES_INSIDE if packages else "")
        else:
            with tempfile.TemporaryDirectory(prefix="gristmill-unsafe-") as folder:
                yield Place(folder, contained=False, packages=str(packages.root) if packages else "")

    def run(
        self,
        request: Callable[[Place], bytes],
        limits: Limits,
        load_s: float,
        span_s: float,
        frame_limit: int,
        names: tuple[str, ...] = (),
    ) -> Ended:
        """One jail. Once more when it could not even start: that is never the candidate's doing.

        request: makes the request, given where the runner works. names: the packages that the code may import.
        """
        packages = self.packages(names)
        with self._slot() as slot, self._place(slot, packages) as place:

            def command(seccomp_fd: int, info_fd: int) -> list[str]:
                return self._command(slot, limits, seccomp_fd, info_fd, packages)

            for _ in range(2):
                try:
                    if slot.group is not None:
                        slot.group.limit(limits)
                except OSError as error:
                    raise Unavailable("sandbox", f"The limits of a cgroup could not be set: {error}") from error
                jail = Jail(slot, limits, command, self._program)
                ended = jail.run(request(place), lambda loaded: span_s if loaded else load_s, frame_limit)
                if ended.started:
                    break
            return ended

    def prove(self) -> None:
        """One run whose answer shows that the protections are in place; Unavailable when they are not."""
        limits = Limits(wall_s=30.0)
        calls = [Call(entry="probe")]

        def request(place: Place) -> bytes:
            return calls_request(_PROBE, calls, limits, None, place, stop_on_timeout=True)

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
import os, socket

def refused(action, *arguments):
    try:
        action(*arguments)
    except OSError:
        return True
    return False

def probe():
    host = {"root", "home", "usr", "var", "etc", "sys", "run", "mnt", "srv", "boot", "media"}
    return {
        "user id": os.getuid() == 1000,
        "first process": os.getppid() == 1,
        "read-only root": refused(os.mkdir, "/x") and refused(open, "/dev/x", "w"),
        "no host files": not host & set(os.listdir("/")) and not os.listdir("/proc"),
        "system call filter": refused(os.chroot, "/tmp") and refused(os.memfd_create, "x"),
        "no network": refused(socket.socket, socket.AF_INET, socket.SOCK_DGRAM),
        "environment": {"HOME", "LANG", "LD_LIBRARY_PATH", "LD_BIND_NOW", "PWD", "PYTHONHASHSEED"} >= set(os.environ),
    }
"""
