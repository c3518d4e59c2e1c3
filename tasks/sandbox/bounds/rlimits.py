"""Bounds each process of a jail: the resource limits that its first process puts on itself.

The runner sets them, soft and hard, before it touches the candidate's code; every process that the code starts
inherits them, and raising one again takes a capability that nobody in the jail has. That is cheaper by a program
start than prlimit(1) around each jail, and prlimit(2) from outside needs CAP_SYS_RESOURCE, which containers drop.
"""

import os
import resource

from tasks.sandbox.results import Limits


def _counts_per_namespace() -> bool:
    """Whether the kernel (5.14 and newer) counts a user's processes inside a user namespace for itself."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(filter(str.isdigit, minor)) or 0)) >= (5, 14)


def cpu_seconds(limits: Limits) -> int:
    """The CPU limit as the kernel takes it: whole seconds, at least one."""
    return max(1, -int(-limits.cpu_s // 1))


def table(limits: Limits, *, own_uid: bool, reserves: bool = False) -> list[tuple[int, int, int]]:
    """(resource, soft, hard) for setrlimit.

    own_uid: the jail has a user id of its own, so that its processes can be counted on any kernel. reserves: bound
    the memory that a process may write to, not its address space (an engine such as V8 reserves gigabytes of it).
    """
    memory = limits.memory_mb << 20
    wanted = {
        resource.RLIMIT_DATA if reserves else resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: cpu_seconds(limits),
        resource.RLIMIT_FSIZE: limits.file_mb << 20,
        resource.RLIMIT_NOFILE: limits.files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: 256,
        resource.RLIMIT_RTPRIO: 0,
    }
    if own_uid or _counts_per_namespace():
        # The jail's own first processes count too.
        wanted[resource.RLIMIT_NPROC] = limits.processes + 2
    # One second between SIGXCPU and SIGKILL, so that the signal says which limit it was.
    return [(int(kind), value, value + 1 if kind == resource.RLIMIT_CPU else value) for kind, value in wanted.items()]
