"""The sandbox service: runs a candidate's code in a fresh jail and gives back plain data.

    box = Sandbox.start()
    box.call_functions("def add(a, b): return a + b", [Call(entry="add", args=[1, 2])]).results[0].value  # 3
    box.run_python("print(input())", stdin="hello").stdout
    box.run_program("read x; echo $x", language("sh"), stdin="hello").stdout
    box.close()

Many threads may use one service; each call takes a free slot (by default one per core) and waits for one when all
are taken. `mode` says what bounds the sums: `cgroup` or, where none can be made, `watchdog`.
"""

import os
import weakref
from collections.abc import Mapping, Sequence

from schemas.errors import Unavailable
from tasks.sandbox.backend import Backend
from tasks.sandbox.container import Container
from tasks.sandbox.programs.languages import Command, environment
from tasks.sandbox.results import Call, CallResults, Limits, RunResult
from tasks.sandbox.session import Session
from tasks.sandbox.shape import Needs
from tasks.sandbox.wire.protocol import Place, Program, calls_request, script_request
from tasks.sandbox.wire.reading import full_heap, read_calls, read_script

BACKEND, IMAGE = "GRISTMILL_SANDBOX_BACKEND", "GRISTMILL_SANDBOX_IMAGE"
UNSAFE = "GRISTMILL_UNSAFE_NO_SANDBOX"
DEFAULT = Limits()
SESSION = Limits(total_s=3600.0)
_GRACE_S = 2.0


class Sandbox:
    """A running service. Make one with `start`, end it with `close` (also done when the process exits)."""

    def __init__(self, box: "Backend") -> None:
        self._box = box
        self._finalizer = weakref.finalize(self, Backend.close, box)

    @classmethod
    def start(
        cls,
        slots: int | None = None,
        *,
        watchdog: bool = False,
        warm: int | None = None,
        backend: str = "",
        image: str = "",
    ) -> "Sandbox":
        """Starts the service and tries it once.

        slots: jails at a time, default one per core; watchdog: do without cgroups even where there are some; warm:
        how many jails are prepared ahead, default one for two slots. backend: bubblewrap, docker or podman (default:
        GRISTMILL_SANDBOX_BACKEND, else bubblewrap); image: for the containers (default: GRISTMILL_SANDBOX_IMAGE).
        Unavailable where code cannot be contained, unless GRISTMILL_UNSAFE_NO_SANDBOX=1 is set.
        """
        slots = slots or len(os.sched_getaffinity(0))
        warm = (slots + 1) // 2 if warm is None else warm
        backend = backend or os.environ.get(BACKEND) or "bubblewrap"
        try:
            if backend == "bubblewrap":
                return cls(Backend.contained(slots, watchdog=watchdog, warm=warm))
            engine = Container(backend, image or os.environ.get(IMAGE, ""))
            return cls(Backend.containers(engine, slots, warm=warm))
        except Unavailable as error:
            if os.environ.get(UNSAFE) == "1":
                return cls(Backend.open(slots))
            raise Unavailable(
                "sandbox",
                f"{error.detail}\nUntrusted code is not run without a sandbox. `gristmill doctor` says more; to run it "
                f"unprotected all the same, set {UNSAFE}=1.",
            ) from error

    @property
    def mode(self) -> str:
        """cgroup, watchdog, container or unsafe."""
        return self._box.mode

    def version(self, packages: Sequence[str] = (), tools: Sequence[str] = ()) -> str:
        """Interpreter, packages, binaries and backend, for the keys of verdicts; the same wherever code runs the same.

        Unavailable `no_interpreter` when a binary is not on this machine.
        """
        found = [self._box.packages(tuple(packages)), self._box.tools(tuple(tools))]
        return "/".join([self._box.python.version, *(each.version for each in found if each), self._box.version])

    def lock(self, packages: Sequence[str]) -> str:
        """The hash of every file of the environment that was built for these pins; "" where there is none."""
        found = self._box.packages(tuple(packages))
        return found.lock if found else ""

    def close(self) -> None:
        """Ends the service and removes its cgroups and its lease."""
        self._finalizer()

    def call_functions(
        self,
        code: str,
        calls: Sequence[Call],
        limits: Limits = DEFAULT,
        *,
        files: Mapping[str, str | bytes] | None = None,
        stop_on_timeout: bool = True,
        packages: Sequence[str] = (),
        loopback: bool = False,
    ) -> CallResults:
        """Loads `code` once in a fresh jail and runs each call in a fork of it.

        packages: what the code may import besides the standard library, such as ("numpy==2.4.0",). loopback: sockets
        on the jail's own loopback. stop_on_timeout: after a call that ran out of time the rest is skipped. Raises
        UserError for inputs that are not JSON data; trouble of the surroundings is a result of kind infrastructure.
        """

        def request(place: Place) -> bytes:
            return calls_request(code, calls, limits, files, place, stop_on_timeout=stop_on_timeout)

        span = min(limits.total_s, limits.wall_s * (len(calls) + 1) + _GRACE_S)
        needs = Needs(packages=tuple(packages), loopback=loopback)
        ended = self._box.run(request, limits, limits.wall_s, span, (limits.value_kb << 10) + 4096, needs)
        return read_calls(ended, len(calls), limits, self.mode)

    def run_python(
        self,
        code: str,
        *,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        limits: Limits = DEFAULT,
        collect: bool = False,
        packages: Sequence[str] = (),
        loopback: bool = False,
    ) -> RunResult:
        """Runs `code` as a script with `stdin`, in a working folder that holds `files`.

        collect: hand back the regular files that the folder holds afterwards (up to limits.disk_mb in all). packages
        and loopback: as for `call_functions`.
        """
        needs = Needs(packages=tuple(packages), loopback=loopback)
        return self._run(Program(code), stdin, files, limits, needs, collect=collect)

    def run_program(
        self,
        code: str,
        command: Command,
        *,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        limits: Limits = DEFAULT,
        collect: bool = False,
        packages: Sequence[str] = (),
        loopback: bool = False,
    ) -> RunResult:
        """Runs `code` in another language: written to the command's file, started by the command's line.

        Unavailable `no_interpreter` when one of its binaries is not on this machine.
        """
        needs = Needs(packages=tuple(packages), tools=command.present(), loopback=loopback, reserves=command.reserves)
        folder = self._box.programs(needs)
        line = command.line(self._box.python.python, limits, folder)
        program = Program(argv=line, env=environment(folder, packages=bool(packages)))
        written = {**(files or {}), command.file: code.encode("utf-8", "backslashreplace")}
        return full_heap(self._run(program, stdin, written, limits, needs, collect=collect))

    def session(
        self,
        limits: Limits = SESSION,
        *,
        packages: Sequence[str] = (),
        tools: Sequence[str] = (),
        loopback: bool = False,
        reserves: bool = False,
    ) -> Session:
        """A jail for several programs of one candidate; close it. tools: system binaries that its programs may start.

        limits: wall_s bounds each program and total_s the session; reserves: see `rlimits.table`. Unavailable when no
        slot came free in a minute.
        """
        needs = Needs(packages=tuple(packages), tools=tuple(tools), loopback=loopback, reserves=reserves)
        return Session(self._box, limits, needs)

    def _run(
        self,
        program: Program,
        stdin: str | bytes,
        files: Mapping[str, str | bytes] | None,
        limits: Limits,
        needs: Needs,
        *,
        collect: bool,
    ) -> RunResult:
        most = limits.disk_mb << 20 if collect else 0

        def request(place: Place) -> bytes:
            return script_request(program, stdin, limits, files, place, collect=most)

        span = min(limits.total_s, limits.wall_s + _GRACE_S + (10.0 if collect else 0.0))
        ended = self._box.run(request, limits, span, span, (limits.file_mb << 20) + 4096, needs)
        return read_script(ended, limits, self.mode)
