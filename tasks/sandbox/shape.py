"""What a program needs in its jail, and the shape of the jail that follows from it.

Jails of one shape are alike before they are given anything to run, so one that was prepared ahead serves any request
of its shape.
"""

from pathlib import Path

from schemas.trajectory import Base


class Needs(Base, frozen=True):
    """What must be inside besides the interpreter.

    packages: names or pins of Python packages; tools: names of system binaries; loopback: sockets on the jail's own
    loopback; reserves: see `rlimits.table`.
    """

    packages: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    loopback: bool = False
    reserves: bool = False


class Shape(Base, frozen=True):
    """Everything that is fixed when a jail starts, but for its slot.

    packages, tools: ready folders, mounted read-only. memory_mb and processes are set where the engine must know them
    at the start (containers), 0 elsewhere.
    """

    disk_mb: int
    hash_seed: int = 0
    packages: Path | None = None
    tools: Path | None = None
    loopback: bool = False
    memory_mb: int = 0
    processes: int = 0
