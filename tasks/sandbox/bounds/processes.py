"""Looks at processes through /proc: identity that survives reuse of a pid, descendants, memory."""

import os
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MUCH = 64 << 20


class Usage(NamedTuple):
    """A sample over several processes: how many, and their private memory (bytes)."""

    processes: int
    memory: int


def boot_id() -> str:
    """Differs after every start of the machine, so that an old pid is never mistaken for a live one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which `pid` started; None when there is no such process (or only a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _parents() -> dict[int, list[int]]:
    tree: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            try:
                parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            tree.setdefault(parent, []).append(int(entry))
    return tree


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def tree(pid: int, limit: int = 4096) -> list[int]:
    """`pid` and its descendants, at most `limit` of them."""
    everything: dict[int, list[int]] | None = None
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():
        everything = _parents()
    found: list[int] = []
    queue = [pid]
    while queue and len(found) < limit:
        current = queue.pop()
        found.append(current)
        try:
            queue += _children(current) if everything is None else everything.get(current, [])
        except OSError:
            continue
    return found


def usage(pid: int, limit: int = 4096) -> Usage:
    """The sample over `pid` and its descendants.

    Memory is resident minus file-backed and shared pages, and the largest share of shared memory that one of them
    maps: forks map the same, so that a sum would count it many times.
    """
    pids = tree(pid, limit)
    private = mapped = 0
    for each in pids:
        try:
            _, resident, shared = Path(f"/proc/{each}/statm").read_text().split()[:3]
            private += (int(resident) - int(shared)) * _PAGE
            if int(shared) * _PAGE > max(mapped, _MUCH):
                mapped = max(mapped, _shared_memory(each))
        except (OSError, ValueError):
            continue
    return Usage(len(pids), private + mapped)


def _shared_memory(pid: int) -> int:
    """Bytes of shared memory (not of files) that a process has mapped and touched."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) << 10
    return 0


def of_users(uids: frozenset[int]) -> list[int]:
    """Every process whose real user id is one of `uids`, without those that are dead but not yet reaped."""
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit():
            continue
        try:
            status = Path(f"/proc/{entry}/status").read_text()
        except OSError:
            continue
        if "\nState:\tZ" in status or "\nState:\tX" in status:
            continue
        line = next((line for line in status.splitlines() if line.startswith("Uid:")), "")
        if line and int(line.split()[1]) in uids:
            found.append(int(entry))
    return found


def orphans(marker: str, owners: frozenset[int]) -> list[int]:
    """Processes with `marker` in their command line whose parent is neither one of `owners` nor such a process."""
    marked: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit():
            continue
        try:
            if marker.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                marked[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    return [pid for pid, parent in marked.items() if parent not in owners and parent not in marked]


def files_below(pid: int, folder: str = "tmp") -> int:
    """How many files the file system at `folder` of the process's root holds; 0 when it cannot be seen."""
    try:
        found = os.statvfs(f"/proc/{pid}/root/{folder}")
    except OSError:
        return 0
    return found.f_files - found.f_ffree
