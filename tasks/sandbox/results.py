"""What goes into a jail and what comes out of it: limits, calls, results.

Everything that comes out is plain data (text, bytes, JSON values); nothing of it is ever unpickled, imported
or compared by its own methods.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from schemas.trajectory import Base


class RunKind(StrEnum):
    """How a run or a call ended. `infrastructure` says nothing about the code: run it again later."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    REFUSED = "refused"
    SKIPPED = "skipped"
    INFRASTRUCTURE = "infrastructure"


class Limits(Base, frozen=True):
    """Bounds of one jail.

    cpu_s: CPU seconds of each process (whole seconds, rounded up); wall_s: wall-clock seconds of loading the
    code and of each call (or of the whole script); total_s: wall-clock seconds of the jail, whatever it does;
    memory_mb: memory of each process, and of all of them together; processes: how many at once; files: open
    files of each process; file_mb: size of one file; disk_mb: all files together (they live in memory);
    output_kb: captured standard output and error, each; value_kb: JSON text of one result;
    hash_seed: Python's hash seed, so that the order of a set is the same in every run.
    """

    cpu_s: float = 5.0
    wall_s: float = 10.0
    total_s: float = 120.0
    memory_mb: int = 512
    processes: int = 32
    files: int = 64
    file_mb: int = 32
    disk_mb: int = 64
    output_kb: int = 256
    value_kb: int = 1024
    hash_seed: int = 0


class Call(Base, frozen=True):
    """One call of a function of the candidate: `entry` is its (dotted) name, the arguments are JSON values."""

    entry: str
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = {}


class CallResult(Base, frozen=True):
    """What one call gave: `value` (a JSON value) when kind is ok, else `detail` says why.

    reason: a short code beside the kind (exception, not_json, missing, exited, load, output_limit, forged, …).
    """

    kind: RunKind
    value: Any = None
    reason: str = ""
    detail: str = ""


class CallResults(Base, frozen=True):
    """One result per call, in order. `kind` is the jail's own: ok unless it could not load or run the code.

    duration_s and cpu_s cover the whole jail, start included; mode is cgroup, watchdog or unsafe.
    """

    kind: RunKind
    results: tuple[CallResult, ...]
    reason: str = ""
    detail: str = ""
    output: str = ""
    duration_s: float = 0.0
    cpu_s: float = 0.0
    mode: str = ""


class RunResult(Base, frozen=True):
    """What one script gave. `exit` is its exit status (negative: the signal that ended it), None when unknown.

    files: what it left in its working folder, by relative path, when asked for; truncated: the output or the
    files went over a limit and are incomplete.
    """

    kind: RunKind
    stdout: str = ""
    stderr: str = ""
    exit: int | None = None
    reason: str = ""
    detail: str = ""
    duration_s: float = 0.0
    cpu_s: float = 0.0
    files: dict[str, bytes] = {}
    truncated: bool = False
    mode: str = ""
