"""Who holds which user ids and cgroups, so that the next start can clean up after a killed process.

A lease is a small file, written before the things it names are made. Its owner is a process, known by pid, start
time and boot; when that process is gone, whoever starts next kills and removes what the lease names.
"""

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import Unavailable
from schemas.trajectory import Base
from tasks.sandbox.bounds import cgroup, processes
from tasks.sandbox.container import remove_all

_KEEP_S = 7 * 86_400
_FIRST_CHOICE, _SECOND_CHOICE = 1_610_000_000, 61_200


class LeaseFile(Base, frozen=True):
    """What one live sandbox service holds; engine and containers: the client and how the containers' names start."""

    pid: int
    started: int
    boot: str
    uids: tuple[int, ...] = ()
    cgroups: tuple[str, ...] = ()
    root: str = ""
    engine: str = ""
    containers: str = ""


class Lease:
    """A held lease; `release` gives it up after the cgroups are gone."""

    def __init__(self, path: Path, held: LeaseFile) -> None:
        self.path, self.held = path, held

    def release(self) -> None:
        """Removes what the lease names and the lease itself."""
        if _removed(self.held):
            self.path.unlink(missing_ok=True)


def _removed(held: LeaseFile) -> bool:
    """Removes every one of the cgroups and containers, also after one that could not be; whether all are gone."""
    gone = [cgroup.remove(Path(folder)) for folder in held.cgroups]
    return all(gone) and (not held.containers or remove_all(held.engine, held.containers))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _read(path: Path) -> LeaseFile | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=LeaseFile)
    except (OSError, msgspec.MsgspecError):
        return None


def _alive(held: LeaseFile) -> bool:
    return held.boot == processes.boot_id() and processes.start_time(held.pid) == held.started


def _reap(path: Path, held: LeaseFile) -> None:
    if held.uids and os.geteuid() == 0:
        for pid in processes.of_users(frozenset(held.uids)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if _removed(held):
        path.unlink(missing_ok=True)


def _end_orphans(state: Path, live: list[LeaseFile]) -> None:
    """Kills jails that were cut off while they started: bubblewrap's inner process waits for ever for the outer one
    when that is killed before it has let it go on, and is in no cgroup yet.
    """
    owners = frozenset((os.getpid(), *(held.pid for held in live)))
    for pid in processes.orphans(f"\0{state}/root-", owners):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _prune(state: Path, used: set[str]) -> None:
    for snapshot in (state / "snapshots").glob("*"):
        if time.time() - snapshot.stat().st_mtime > _KEEP_S:
            snapshot.unlink(missing_ok=True)
    for pattern, age in (("root-*", _KEEP_S), ("env-*", _KEEP_S), ("tools-*", _KEEP_S), ("building-*", 3600)):
        for path in state.glob(pattern):
            if str(path) not in used and time.time() - path.stat().st_mtime > age:
                shutil.rmtree(path, ignore_errors=True)


def _mapped(first: int, count: int) -> bool:
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        start, _, length = map(int, line.split())
        if start <= first and first + count <= start + length:
            return True
    return False


def _choose(taken: frozenset[int], count: int) -> tuple[int, ...]:
    first = next((each for each in (_FIRST_CHOICE, _SECOND_CHOICE) if _mapped(each, 4096)), None)
    if first is None:
        raise Unavailable("sandbox", "This user namespace maps no free range of user ids for the jails.")
    chosen: list[int] = []
    for uid in range(first, first + 4096):
        if len(chosen) == count:
            break
        if uid in taken:
            continue
        try:
            pwd.getpwuid(uid)
        except KeyError:
            chosen.append(uid)
    return tuple(chosen)


def acquire(state: Path, slots: int, names: list[str], root: Path) -> Lease:
    """Cleans up after dead owners, then takes `slots` user ids (root only) and announces cgroups called `names`.

    root: the copied interpreter that is used; copies that nobody uses and that are a week old are removed.
    """
    with _cleaned(state, root) as live:
        taken = frozenset(uid for held in live for uid in held.uids)
        uids = _choose(taken, slots) if os.geteuid() == 0 else ()
        planned = tuple(sorted({path for name in names for path in cgroup.planned(name)}))
        return _written(state, names[0], uids=uids, cgroups=planned, root=str(root))


def hold_containers(state: Path, engine: str, prefix: str) -> Lease:
    """Cleans up after dead owners, then announces containers whose names start with `prefix`."""
    with _cleaned(state, None):
        return _written(state, prefix, engine=engine, containers=prefix)


@contextlib.contextmanager
def _cleaned(state: Path, root: Path | None) -> Iterator[list[LeaseFile]]:
    """The leases of live owners, under the lock; those of dead ones are reaped."""
    folder = state / "leases"
    folder.mkdir(mode=0o700, exist_ok=True)
    with _locked(folder):
        for cut_short in folder.glob("*.tmp"):
            cut_short.unlink(missing_ok=True)
        live: list[LeaseFile] = []
        for path in folder.glob("*.json"):
            held = _read(path)
            if held is None:
                path.unlink(missing_ok=True)
            elif _alive(held):
                live.append(held)
            else:
                _reap(path, held)
        _end_orphans(state, live)
        _prune(state, {held.root for held in live} | {str(root or "")})
        yield live


def _written(state: Path, name: str, **held: Any) -> Lease:
    own = processes.start_time(os.getpid())
    if own is None:
        raise Unavailable("sandbox", "/proc is not readable: a lease needs the start time of its process.")
    lease = LeaseFile(pid=os.getpid(), started=own, boot=processes.boot_id(), **held)
    path = state / "leases" / f"{name}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(lease))
    temporary.rename(path)
    return Lease(path, lease)
