"""Snapshots of a jail's working folder: content-addressed, checked, kept as data and never as files of the host.

A snapshot is one file whose name is the hash of its bytes: a list of entries (kind, permissions, name, content).
Links are texts in it and FIFOs, sockets and devices are left out, so nothing of it can lead anywhere; it becomes
files again only inside a jail. Times are not kept.
"""

import os
import re
import time
from pathlib import Path

import msgspec

from schemas.errors import RecordError, UserError
from schemas.ids import digest
from schemas.trajectory import Base
from tasks.sandbox.jail import Frame
from tasks.sandbox.wire.protocol import Forged, decode

_ID = re.compile(r"[0-9a-f]{32,64}")
_HEAD = re.compile(rb"([fdl])([0-7]{1,3}) (.+)", re.DOTALL)


class Entry(Base, frozen=True, array_like=True):
    """kind: f (file), d (folder) or l (link, its target is the content); mode: permissions; name: a path's bytes."""

    kind: str
    mode: int
    name: bytes
    content: bytes


class Snapshot(Base, frozen=True):
    """A folder's content in order, parents before children; left_out: how many special files it lacks."""

    entries: tuple[Entry, ...]
    left_out: int = 0


def read(frames: list[Frame]) -> Snapshot:
    """What a jail sent as its folder's content.

    Forged for what its runner never sends; RecordError `snapshot_too_large` or `snapshot` when it could not be taken.
    """
    entries: list[Entry] = []
    folders, seen, left_out = {b""}, set(), 0
    trouble: RecordError | None = None
    for kind, body in frames:
        if kind == b"J":
            frame = decode(body)
            if frame == [-4]:
                left_out += 1
            elif frame == [-7]:
                trouble = RecordError("snapshot_too_large", "the working folder holds more than its limit")
            elif frame[0] == -8 and len(frame) == 2:
                trouble = trouble or RecordError("snapshot", str(frame[1])[:500])
            else:
                raise Forged("an unknown frame in a snapshot")
            continue
        size = int.from_bytes(body[:2], "big")
        found = _HEAD.fullmatch(body[2 : 2 + size])
        if kind != b"F" or found is None:
            raise Forged("a snapshot's entry of unknown shape")
        name = found[3]
        parent = name.rpartition(b"/")[0]
        if b"\0" in name or parent not in folders or name in seen or name.rpartition(b"/")[2] in (b"", b".", b".."):
            raise Forged("a snapshot's entry that does not stay inside")
        entry = Entry(found[1].decode(), int(found[2], 8), name, body[2 + size :])
        seen.add(name)
        if entry.kind == "d":
            folders.add(name)
        entries.append(entry)
    if trouble is not None:
        raise trouble
    return Snapshot(entries=tuple(entries), left_out=left_out)


def save(state: Path, snapshot: Snapshot) -> str:
    """Keeps a snapshot and gives its id; the same content has the same id."""
    data = msgspec.msgpack.encode(snapshot)
    found = digest(data)
    folder = state / "snapshots"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{found}.snap"
    if not path.exists():
        temporary = folder / f"{found}.{os.getpid()}-{time.monotonic_ns()}.tmp"
        temporary.write_bytes(data)
        temporary.rename(path)
    return found


def load(state: Path, snapshot_id: str) -> Snapshot:
    """A kept snapshot; UserError when there is none, or when its bytes are not those that its id names."""
    path = state / "snapshots" / f"{snapshot_id}.snap"
    if not _ID.fullmatch(snapshot_id) or not path.is_file():
        raise UserError(f"No snapshot '{snapshot_id}' is kept in {state}.", "", "Take one with Session.snapshot().")
    data = path.read_bytes()
    if digest(data) != snapshot_id:
        raise UserError(f"The snapshot '{snapshot_id}' is damaged: {path}.", "", "Remove the file and take a new one.")
    os.utime(path)
    return msgspec.msgpack.decode(data, type=Snapshot)
