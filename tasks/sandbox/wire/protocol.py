"""What is said between the trusted process and a jail, and how little of it is believed.

In: 8 bytes length and a marshalled dict of inputs (marshal, because it needs no import inside; it is only ever
read by the jail). Out: frames of strict JSON text or file bytes. Whatever does not fit (unknown frame, index out
of range, two results for one call, NaN, numbers out of range, nesting too deep, too long) makes the run refused.
"""

import marshal
import resource
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from schemas.errors import UserError
from tasks.sandbox.bounds.rlimits import cpu_seconds, table
from tasks.sandbox.results import Call, Limits

MAX_DEPTH = 100
BOUNDED = (b"J", b"[-5]")
INSIDE = "/tmp"  # noqa: S108
FOLDER = "{folder}"


class Program(NamedTuple):
    """What runs as a program: Python `code` as a script, or, with `argv`, a command line and its whole environment
    (FOLDER stands for the working folder).
    """

    code: str = ""
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


class Place(NamedTuple):
    """Where a runner works: its folder, whether it has a user id of its own, whether there is a jail around it.

    packages: a folder of declared packages on its module path, "" for none; reserves: its program reserves more
    address space than it uses, so that what it writes to is bounded instead; counted: its processes are bounded by
    others (a container's own limit); filter: the system call filter that the runner must put on itself.
    """

    folder: str = INSIDE
    own_uid: bool = False
    contained: bool = True
    packages: str = ""
    reserves: bool = False
    counted: bool = False
    filter: bytes = b""


class Forged(Exception):
    """The jail said something that its runner never says."""


def _checked_name(name: str) -> str:
    parts = name.split("/")
    if not name or name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise UserError(f"The file name {name!r} does not stay inside the jail's working folder.")
    return name


def files_of(files: Mapping[str, str | bytes] | None) -> list[tuple[str, bytes]]:
    """Files for a working folder as (name, content); UserError for a name that does not stay inside."""
    return [
        (_checked_name(name), content.encode() if isinstance(content, str) else bytes(content))
        for name, content in (files or {}).items()
    ]


def _request(limits: Limits, code: str, files: Mapping[str, str | bytes] | None, place: Place) -> dict[str, Any]:
    return {
        "code": code.encode("utf-8", "backslashreplace").decode(),
        "files": files_of(files),
        "wall": float(limits.wall_s),
        "cpu": cpu_seconds(limits),
        "limits": _table(limits, place) if place.contained else [],
        "packages": place.packages,
        "folder": f"{place.folder}/work",
        "output": limits.output_kb << 10,
        "filter": place.filter,
    }


def _table(limits: Limits, place: Place) -> list[tuple[int, int, int]]:
    whole = table(limits, own_uid=place.own_uid, reserves=place.reserves)
    return [each for each in whole if not (place.counted and each[0] == resource.RLIMIT_NPROC)]


def pack(request: dict[str, Any]) -> bytes:
    """A request as the runner reads it; ValueError for what is not plain data."""
    body = marshal.dumps(request, 2)
    return len(body).to_bytes(8, "big") + body


def calls_request(
    code: str,
    calls: Sequence[Call],
    limits: Limits,
    files: Mapping[str, str | bytes] | None,
    place: Place,
    *,
    stop_on_timeout: bool,
) -> bytes:
    """The request for a fork per call. UserError when the inputs are not JSON data."""
    request = _request(limits, code, files, place) | {
        "mode": "calls",
        "calls": [(call.entry, list(call.args), dict(call.kwargs)) for call in calls],
        "value_limit": limits.value_kb << 10,
        "stop_on_timeout": stop_on_timeout,
    }
    try:
        return pack(request)
    except ValueError as error:
        raise UserError(f"The arguments of a call are not JSON data: {error}") from error


def script_request(
    program: Program,
    stdin: str | bytes,
    limits: Limits,
    files: Mapping[str, str | bytes] | None,
    place: Place,
    *,
    collect: int,
) -> bytes:
    """The request for one program; collect: how many bytes of files to send back."""
    return pack(
        _request(limits, program.code, files, place)
        | running(program, stdin, place)
        | {"mode": "script", "collect": collect, "value_limit": 0}
    )


def session_request(limits: Limits, place: Place) -> bytes:
    """The request that opens a session."""
    return pack(_request(limits, "", None, place) | {"mode": "session"})


def running(program: Program, stdin: str | bytes, place: Place) -> dict[str, Any]:
    """What a runner needs to know of one program."""
    return {
        "stdin": stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin,
        "script": f"{place.folder}/main.py",
        "argv": [part.replace(FOLDER, f"{place.folder}/work") for part in program.argv],
        "env": {name: value.replace(FOLDER, f"{place.folder}/work") for name, value in program.env.items()},
    }


class Frames:
    """Cuts the byte stream of a jail into frames; never holds more than one frame over the limit."""

    def __init__(self, limit: int) -> None:
        self._limit, self._buffer = limit, bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The (type, body) of every frame that is complete now."""
        self._buffer += data
        frames: list[tuple[bytes, bytes]] = []
        start = 0
        while len(self._buffer) - start >= 5:
            size = int.from_bytes(self._buffer[start : start + 4], "big")
            if size > self._limit:
                raise Forged(f"a frame of {size} bytes")
            if len(self._buffer) - start < 5 + size:
                break
            frame = bytes(self._buffer[start + 4 : start + 5 + size])
            frames.append((frame[:1], frame[1:]))
            start += 5 + size
        del self._buffer[:start]
        return frames


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            child
            for each in level
            if isinstance(each, list | dict)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def decode(body: bytes) -> list[Any]:
    """The JSON array of a J frame whose first item is an integer."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError) as error:
        raise Forged(f"not strict JSON: {str(error)[:100]}") from error
    if not isinstance(value, list) or not value or type(value[0]) is not int:
        raise Forged("a frame of unknown shape")
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH + 2:
        raise Forged("nested too deep")
    return value


def decode_file(body: bytes) -> tuple[str, bytes]:
    """Name and content of an F frame; the name is checked as if we were to write it."""
    size = int.from_bytes(body[:2], "big")
    try:
        return _checked_name(body[2 : 2 + size].decode()), body[2 + size :]
    except (UnicodeDecodeError, UserError) as error:
        raise Forged("a file name that does not stay inside") from error
