"""Which process holds something, in a form that outlives it.

An owner's name says machine, boot, process-id namespace, process id and start time, so that a process on the
same machine can tell at once that the owner was killed, without waiting for an expiry. Owners on other
machines are never judged: theirs must expire.
"""

import os
import secrets
from pathlib import Path


def _place() -> str:
    """This boot of this machine, and the namespace in which process ids are counted."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When the process started, in clock ticks after boot; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def this_process() -> str:
    """A new owner's name for the calling process; every call gives another one."""
    pid = os.getpid()
    return f"{_place()}|{pid}|{_started(pid)}|{secrets.token_hex(4)}"


def is_dead(owner: str) -> bool:
    """Whether the owner certainly runs no more; False for an owner elsewhere."""
    place, _, rest = owner.partition("|")
    parts = rest.split("|")
    if not place or place != _place() or len(parts) != 3 or not parts[0].isdigit():
        return False
    return _started(int(parts[0])) != parts[1]
