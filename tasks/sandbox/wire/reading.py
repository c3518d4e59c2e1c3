"""Turns what was seen of a jail into results; believes values, never verdicts."""

from typing import Literal

import msgspec

from tasks.sandbox.jail import Ended
from tasks.sandbox.results import CallResult, CallResults, Limits, RunKind, RunResult
from tasks.sandbox.wire.protocol import Forged, decode, decode_file

_TAIL = 4000
# How V8 says that its heap is full: its last words, and SIGABRT or SIGTRAP.
_FULL, _ABORTED = "heap out of memory", (-5, -6)
_Reported = Literal["ok", "error", "timeout", "cpu", "memory"]
_KILLED: dict[str, tuple[RunKind, str, str]] = {
    "wall": (RunKind.TIMEOUT, "wall", "killed at the wall-clock limit"),
    "memory": (RunKind.MEMORY, "memory", "killed: all processes together went over the memory limit"),
    "processes": (RunKind.ERROR, "processes", "killed: too many processes at once"),
    "files": (RunKind.ERROR, "files", "killed: too many files"),
    "output": (RunKind.ERROR, "output_limit", "killed: more output than the limit"),
    "forged": (RunKind.REFUSED, "forged", "the jail wrote something that its runner never writes"),
}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _why(ended: Ended, limits: Limits) -> CallResult:
    """Why a jail stopped that did not report to the end."""
    if not ended.started:
        reason = _text(ended.stderr[-500:]).strip() or f"exit status {ended.exit}"
        return CallResult(kind=RunKind.INFRASTRUCTURE, reason="start", detail=f"the jail did not start: {reason}")
    if ended.killed:
        kind, reason, detail = _KILLED[ended.killed]
        return CallResult(kind=kind, reason=reason, detail=detail)
    if ended.out_of_memory:
        return CallResult(kind=RunKind.MEMORY, reason="memory", detail="killed for memory")
    if ended.exit == 137 and ended.cpu_s >= limits.cpu_s / 2:
        return CallResult(kind=RunKind.CPU, reason="cpu", detail=f"killed at the CPU limit of {limits.cpu_s} s")
    said = " ".join(_text(ended.stderr[-300:]).split())
    detail = f"the process ended (status {ended.exit}) before it reported" + (f": {said}" if said else "")
    return CallResult(kind=RunKind.ERROR, reason="exited", detail=detail)


def _failure(ended: Ended, kind: str, reason: str, detail: str) -> CallResult:
    if ended.out_of_memory and reason == "killed":
        return CallResult(kind=RunKind.MEMORY, reason="memory", detail="killed for memory")
    return CallResult(kind=RunKind(kind), reason=reason, detail=detail)


def read_calls(ended: Ended, count: int, limits: Limits, mode: str) -> CallResults:
    """One result per call. Anything that cannot have come from the runner makes all of them refused."""
    got: dict[int, CallResult] = {}
    load: CallResult | None = None
    loaded = False
    try:
        for kind, body in ended.frames:
            if kind != b"J":
                raise Forged("a file among the results of calls")
            frame = decode(body)
            index = frame[0]
            if frame == [-3] and not loaded:
                loaded = True
            elif index in got or not -1 <= index < count:
                raise Forged("two results for one call, or one for no call")
            elif len(frame) == 3 and frame[1] == "ok" and index >= 0:
                got[index] = CallResult(kind=RunKind.OK, value=frame[2])
            else:
                _, named, reason, detail = msgspec.convert(frame, tuple[int, _Reported, str, str])
                if index == -1:
                    load = _failure(ended, named, reason, detail)
                else:
                    got[index] = _failure(ended, named, reason, detail)
    except (Forged, msgspec.ValidationError) as error:
        ended.killed, got, loaded = "forged", {}, False
        load = CallResult(kind=RunKind.REFUSED, reason="forged", detail=str(error))
    stopped = None if loaded and ended.exit == 0 and not ended.killed else _why(ended, limits)
    if ended.killed == "forged" and load is None:
        load, got = stopped, {}
    whole = load or stopped or CallResult(kind=RunKind.OK)
    return CallResults(
        kind=whole.kind,
        reason=whole.reason,
        detail=whole.detail,
        results=tuple(_in_order(got, count, load, stopped)),
        output=_text((ended.stdout + ended.stderr)[-_TAIL:]),
        duration_s=ended.duration_s,
        cpu_s=ended.cpu_s,
        mode=mode,
    )


def _in_order(
    got: dict[int, CallResult], count: int, load: CallResult | None, stopped: CallResult | None
) -> list[CallResult]:
    last = max(got, default=-1)
    over = last >= 0 and got[last].kind in (RunKind.TIMEOUT, RunKind.CPU)
    skipped = CallResult(kind=RunKind.SKIPPED, reason="skipped", detail="not run")
    silent = CallResult(kind=RunKind.ERROR, reason="exited", detail="the process ended itself without a result")
    results: list[CallResult] = []
    for index in range(count):
        if index in got:
            results.append(got[index])
        elif load is not None:
            results.append(load)
        elif index < last:
            results.append(silent)
        elif stopped is not None:
            results.append(stopped if index == last + 1 else skipped)
        else:
            results.append(skipped if over else silent)
    return results


def full_heap(ran: RunResult) -> RunResult:
    """A run of V8 that ended because its heap was full is one that ran out of memory."""
    if ran.kind is RunKind.ERROR and ran.exit in _ABORTED and _FULL in ran.stderr[-20_000:]:
        return msgspec.structs.replace(ran, kind=RunKind.MEMORY, reason="memory", detail=_FULL)
    return ran


def read_script(ended: Ended, limits: Limits, mode: str) -> RunResult:
    """The end of a script, its output and, when collected, its files."""
    end: tuple[CallResult, int | None] | None = None
    files: dict[str, bytes] = {}
    truncated = len(ended.stdout) >= limits.output_kb << 10 or len(ended.stderr) >= limits.output_kb << 10
    try:
        for kind, body in ended.frames:
            if kind == b"F":
                name, content = decode_file(body)
                files[name] = content
                continue
            frame = decode(body)
            if frame == [-4]:
                truncated = True
                continue
            _, named, reason, detail, status = msgspec.convert(frame, tuple[Literal[-2], _Reported, str, str, int])
            if end is not None:
                raise Forged("two ends of one script")
            end = (_failure(ended, named, reason, detail), status)
    except (Forged, msgspec.ValidationError):
        ended.killed, end = "forged", None
    if end is None or ended.killed == "forged":
        end, files = (_why(ended, limits), None), {}
    found, code = end
    stderr = _text(ended.stderr)
    if found.kind is RunKind.ERROR and stderr.rstrip().rpartition("\n")[2].startswith("MemoryError"):
        found = CallResult(kind=RunKind.MEMORY, reason="memory", detail="MemoryError")
    return RunResult(
        kind=found.kind,
        stdout=_text(ended.stdout),
        stderr=stderr,
        exit=code,
        reason=found.reason,
        detail=found.detail,
        duration_s=ended.duration_s,
        cpu_s=ended.cpu_s,
        files=files,
        truncated=truncated,
        mode=mode,
    )
