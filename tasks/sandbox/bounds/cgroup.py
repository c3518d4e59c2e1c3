"""Bounds the sum of a jail's memory and processes where this process may make cgroups (v1 or v2).

One cgroup per slot, made once and used by one jail after another. A jail's first process is moved in before it
is given any code, so everything that the code starts is born inside.
"""

import os
import signal
import time
from pathlib import Path

from tasks.sandbox.results import Limits


class Cgroup:
    """The cgroup of one slot: one folder (v2), or one per controller (v1)."""

    def __init__(self, folders: dict[str, Path], *, unified: bool) -> None:
        self._folders, self._unified = folders, unified
        self._set: tuple[int, int] | None = None

    @property
    def paths(self) -> list[str]:
        """Its folders."""
        return sorted({str(path) for path in self._folders.values()})

    def limit(self, limits: Limits) -> None:
        """Sets the bounds for the next jail; memory counts every page, also those of files in /tmp."""
        wanted = (limits.memory_mb << 20, limits.processes + 1)
        if self._set == wanted:
            return
        memory, pids = self._folders["memory"], self._folders["pids"]
        if self._unified:
            _write(memory / "memory.max", wanted[0])
            _try_write(memory / "memory.swap.max", 0)
        else:
            # With swap accounting, the sum may never be below the memory limit, so it is raised first.
            _try_write(memory / "memory.memsw.limit_in_bytes", -1)
            _write(memory / "memory.limit_in_bytes", wanted[0])
            _try_write(memory / "memory.memsw.limit_in_bytes", wanted[0])
        _write(pids / "pids.max", wanted[1])
        self._set = wanted

    def add(self, pid: int) -> None:
        """Moves a process in."""
        for folder in {*self._folders.values()}:
            _write(folder / "cgroup.procs", pid)

    def kills(self) -> int:
        """How many processes were killed for memory so far."""
        name = "memory.events" if self._unified else "memory.oom_control"
        try:
            text = (self._folders["memory"] / name).read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)

    def remove(self) -> None:
        """Kills what is left in it and removes it."""
        for path in self.paths:
            remove(Path(path))


def _write(path: Path, value: int) -> None:
    with path.open("w") as out:
        out.write(str(value))


def _try_write(path: Path, value: int) -> None:
    try:
        _write(path, value)
    except OSError:
        return


def remove(folder: Path, patience_s: float = 2.0) -> bool:
    """Kills every process of a cgroup and removes it; whether it is gone."""
    end = time.monotonic() + patience_s
    while folder.is_dir():
        try:
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
    return True


def _mounts() -> list[tuple[str, Path, frozenset[str]]]:
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            found.append((kind, Path(left.split()[4]), frozenset(options.replace(" ", ",").split(","))))
    return found


def _own() -> dict[str, str]:
    paths: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            paths[name] = path
    return paths


def _places() -> list[tuple[dict[str, Path], bool]]:
    """Folders to try to make a cgroup in: per controller (v1), beside and inside our own (v2)."""
    mounts, own = _mounts(), _own()
    places: list[tuple[dict[str, Path], bool]] = []
    v1: dict[str, Path] = {}
    for controller in ("memory", "pids"):
        for kind, mount, options in mounts:
            if kind == "cgroup" and controller in options:
                below = mount / own.get(controller, "/").lstrip("/")
                v1[controller] = below if below.is_dir() else mount
    if len(v1) == 2:
        places.append((v1, False))
    for kind, mount, _ in mounts:
        if kind == "cgroup2":
            below = mount / own.get("", "/").lstrip("/")
            for folder in (below, below.parent) if below != mount else (mount,):
                if folder.is_dir() and folder.is_relative_to(mount):
                    places.append(({"memory": folder, "pids": folder}, True))
    return places


def planned(name: str) -> list[str]:
    """Every folder that `make` may leave behind for `name`; written into the lease before the first is made."""
    return sorted({str(folder / name) for folders, _ in _places() for folder in folders.values()})


def make(name: str) -> Cgroup | None:
    """A working cgroup called `name` with memory and process limits, or None where there cannot be one."""
    for folders, unified in _places():
        group = Cgroup({key: folder / name for key, folder in folders.items()}, unified=unified)
        try:
            for path in group.paths:
                Path(path).mkdir()
            group.limit(Limits())
            return group
        except OSError:
            group.remove()
    return None
