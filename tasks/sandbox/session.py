"""A jail that is kept for several programs of one candidate, with snapshots of its working folder.

    with box.session(loopback=True) as jail:
        jail.run_python(SERVER, keep=True)
        before = jail.snapshot()
        jail.run_program("rm -rf *", language("sh"))
        jail.restore(before)

One session belongs to one candidate. Between two calls everything in it stands still. When a bound of the whole jail
is passed it is over, and further calls raise Unavailable `session_over`.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from schemas.errors import Unavailable
from tasks.sandbox import snapshots
from tasks.sandbox.backend import Backend
from tasks.sandbox.bounds.rlimits import cpu_seconds
from tasks.sandbox.jail import Ended, Frame
from tasks.sandbox.programs.languages import Command, environment
from tasks.sandbox.results import Limits, RunResult
from tasks.sandbox.shape import Needs
from tasks.sandbox.state import state_dir
from tasks.sandbox.wire.protocol import Forged, Program, files_of, pack, running, session_request
from tasks.sandbox.wire.reading import full_heap, read_script

_END: Frame = (b"J", b"[-6]")
_GRACE_S, _PATIENCE_S = 5.0, 60.0


class Session:
    """An open session; `close` it, or use it as a context manager. It holds one of the service's slots."""

    def __init__(self, box: Backend, limits: Limits, needs: Needs) -> None:
        if box.engine.unsafe:
            raise Unavailable("sandbox", "a session needs a jail: without one nothing would bound what it leaves")
        self._box, self._limits, self._needs = box, limits, needs
        self._until = time.monotonic() + limits.total_s
        self._held = ExitStack()
        self._over = ""
        try:
            shape = box.shape(limits, needs)
            self._held.enter_context(box.turn(_PATIENCE_S))
            self._jail = self._held.enter_context(box.held(shape, lasting=True))
            self._held.callback(self._jail.end, kill=True)
            box.bound(self._jail, limits)
            self._place = box.place(self._jail.slot, shape, needs)
            ended = self._ask(session_request(limits, self._place), _GRACE_S + limits.wall_s)
            if not ended.started or self._over:
                reason = ended.stderr[-500:].decode("utf-8", "replace").strip() or self._over
                raise Unavailable("sandbox", f"the jail did not start: {reason}")
        except BaseException:
            self._held.close()
            raise

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the jail with everything in it."""
        self._over = self._over or "closed"
        self._held.close()

    def run_python(
        self,
        code: str,
        *,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        keep: bool = False,
    ) -> RunResult:
        """Runs a script in the working folder as it is. keep: what it left running goes on with the next call."""
        return self._run(Program(code), stdin, files, keep=keep)

    def run_program(
        self,
        code: str,
        command: Command,
        *,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        keep: bool = False,
    ) -> RunResult:
        """Runs a program of another language; its binaries must be among the session's tools."""
        python = self._box.python.python
        program = Program(argv=command.line(python, self._limits), env=environment(packages=bool(self._needs.packages)))
        written = {**(files or {}), command.file: code.encode("utf-8", "backslashreplace")}
        return full_heap(self._run(program, stdin, written, keep=keep))

    def run_command(
        self,
        argv: tuple[str, ...],
        *,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        keep: bool = False,
    ) -> RunResult:
        """Runs a command line in the working folder; its first word is "python" or one of the session's tools."""
        command = Command(argv=argv, tools=self._needs.tools)
        line = command.line(self._box.python.python, self._limits)
        program = Program(argv=line, env=environment(packages=bool(self._needs.packages)))
        return full_heap(self._run(program, stdin, files, keep=keep))

    def files(self) -> dict[str, bytes]:
        """The regular files of the working folder, by path; names that are no UTF-8 are left out.

        RecordError `snapshot_too_large` above limits.disk_mb.
        """
        return {
            name: each.content
            for each in self._folder().entries
            if each.kind == "f" and (name := each.name.decode("utf-8", "ignore")).encode() == each.name
        }

    def snapshot(self) -> str:
        """Keeps the working folder's files, folders and links; gives the id, a hash of all of it.

        RecordError `snapshot_too_large` above limits.disk_mb.
        """
        return snapshots.save(state_dir(), self._folder())

    def restore(self, snapshot_id: str) -> None:
        """Makes the working folder what it was; UserError for an id that is not kept here."""
        entries = [
            (each.kind, each.mode, each.name, each.content) for each in snapshots.load(state_dir(), snapshot_id).entries
        ]
        ended = self._ask(pack({"mode": "restore", "entries": entries}), _PATIENCE_S)
        self._check(ended)
        if ended.frames != [_END]:
            raise self._end(f"not restored: {ended.frames[0][1][:300]!r}")

    def _folder(self) -> snapshots.Snapshot:
        ended = self._ask(pack({"mode": "snapshot", "most": self._limits.disk_mb << 20}), _PATIENCE_S)
        self._check(ended)
        try:
            return snapshots.read(ended.frames[:-1])
        except Forged as error:
            raise self._end(f"forged: {error}") from error

    def _run(
        self, program: Program, stdin: str | bytes, files: Mapping[str, str | bytes] | None, *, keep: bool
    ) -> RunResult:
        limits = self._limits
        request: dict[str, Any] = {
            "mode": "run",
            "code": program.code.encode("utf-8", "backslashreplace").decode(),
            "files": files_of(files),
            "wall": float(limits.wall_s),
            "cpu": cpu_seconds(limits),
            "keep": keep,
            "output": limits.output_kb << 10,
            **running(program, stdin, self._place),
        }
        ended = self._ask(pack(request), limits.wall_s + _GRACE_S)
        if ended.frames[-1:] == [_END]:
            ended.frames = ended.frames[:-1]
            trouble = [body for kind, body in ended.frames if kind == b"J" and body.startswith(b"[-8,")]
            if trouble:
                raise self._end(f"the program could not be started: {trouble[0][:300]!r}")
        elif not self._over:
            self._over = "its first process ended"
        return read_script(ended, limits, self._box.mode)

    def _ask(self, request: bytes, seconds: float) -> Ended:
        if self._over:
            raise Unavailable("session_over", self._over)
        allowed = min(seconds, max(0.0, self._until - time.monotonic()))
        frame_limit = (max(self._limits.file_mb, 1) << 20) + 70_000
        ended = self._jail.ask(request, self._limits, lambda _: allowed, frame_limit, _END.__eq__)
        if ended.killed:
            self._over = f"a bound was passed: {ended.killed}"
        self._box.refuse_closed()
        return ended

    def _check(self, ended: Ended) -> None:
        if self._over or ended.frames[-1:] != [_END]:
            raise self._end(self._over or "its first process ended")

    def _end(self, why: str) -> Unavailable:
        self._over = why
        return Unavailable("session_over", why)
