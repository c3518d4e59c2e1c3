"""Takes the media of a reading out of its rows: content goes into the lake's blob folder, the part keeps its hash.

Taken in are data URLs, web pages (HTML, accessibility trees), and files that a path in the record names, where they
lie in the folder of the log or below it. Nothing is fetched: addresses of the web stay addresses. A path that leads
to no such file stays as given, and `lost_fields` says so; what a file is, its content says. A media type that is none
of the part's kind is not kept, and named there too. A blob is durable before the row that names it.
"""

import base64
import binascii
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import msgspec

from schemas.errors import RecordError
from schemas.trajectory import Part, Step, Trajectory
from schemas.vocabulary import PartType
from tasks.media import UNKNOWN, fits, is_of, is_page, type_of
from warehouse.blobs import Blobs, key_of
from warehouse.lake import Lake

if TYPE_CHECKING:
    from tasks.normalize.reading import Reading

# The largest blob; one this size is held in memory twice while it is decoded.
MAX_BLOB = 64 << 20

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_BY_REFERENCE = "text/uri-list"
_TEXT = PartType.TEXT


class _Taken(NamedTuple):
    data: bytes
    media_type: str
    uri: str | None
    # A media type that the content was given and cannot have.
    unfit: str | None = None


def without_media(readings: "Sequence[Reading]", lake: Lake, folder: Path) -> "Sequence[Reading]":
    """The readings with their media as blobs of `lake`; paths are looked up below `folder`, that of the log.

    RecordError `blob_too_large`: embedded content beyond MAX_BLOB. Unavailable: it cannot be stored now.
    """
    blobs = Blobs(lake)
    return [
        msgspec.structs.replace(reading, trajectory=_stored(reading.trajectory, blobs, folder)) for reading in readings
    ]


def has_media(readings: "Sequence[Reading]") -> bool:
    """Whether any part is something else than plain text."""
    for reading in readings:
        for step in reading.trajectory.steps:
            for part in step.content:
                if part.type is not _TEXT or part.media_type is not None:
                    return True
            for result in step.results:
                for part in result.content:
                    if part.type is not _TEXT or part.media_type is not None:
                        return True
    return False


def _stored(trajectory: Trajectory, blobs: Blobs, folder: Path) -> Trajectory:
    lost: set[str] = set()
    steps = tuple(_step(step, blobs, folder, lost) for step in trajectory.steps)
    own = trajectory.provenance
    if lost:
        own = msgspec.structs.replace(own, lost_fields=(*own.lost_fields, *sorted(lost)))
    return msgspec.structs.replace(trajectory, steps=steps, provenance=own)


def _step(step: Step, blobs: Blobs, folder: Path, lost: set[str]) -> Step:
    content = tuple(_part(part, blobs, folder, lost) for part in step.content)
    results = tuple(
        msgspec.structs.replace(result, content=tuple(_part(part, blobs, folder, lost) for part in result.content))
        for result in step.results
    )
    return msgspec.structs.replace(step, content=content, results=results)


def _part(part: Part, blobs: Blobs, folder: Path, lost: set[str]) -> Part:
    if part.media_type is not None and not fits(part.type, part.media_type):
        lost.add(_unfit(part, part.media_type))
        part = msgspec.structs.replace(part, media_type=None)
    try:
        taken = _taken(part, folder)
    except _Refused as refused:
        lost.add(f"media {_short(part.uri or '')}: {refused}")
        return part
    if taken is None:
        return part
    if taken.unfit:
        lost.add(_unfit(part, taken.unfit))
    sha256 = blobs.put(taken.data)
    kind = PartType.FILE if part.type is _TEXT else part.type
    return Part(type=kind, media_type=taken.media_type, sha256=sha256, uri=taken.uri or key_of(sha256))


def _unfit(part: Part, media_type: str) -> str:
    return f"media_type {media_type[:80]!r} of {part.type}: not_its_type"


def _short(uri: str) -> str:
    return f"{uri.partition(',')[0][:80]},…" if uri[:5].lower() == "data:" else uri[:200]


class _Refused(Exception):
    """Why a path is not taken in."""


def _taken(part: Part, folder: Path) -> _Taken | None:
    """The content of a part that belongs into a blob; None for plain text and for addresses."""
    if part.type is _TEXT:
        if part.text is None or not is_page(part) or part.media_type is None:
            return None
        return _Taken(_checked(part.text.encode()), part.media_type, part.uri)
    if part.uri is None or part.media_type == _BY_REFERENCE:
        return None
    if part.uri[:5].lower() == "data:":
        return _embedded(part, part.uri)
    if (path := _path_of(part.uri)) is None:
        return None
    data = _read(path, folder)
    # A record must not bring in whatever else lies beside it, such as a file with keys.
    # What it is called says nothing: any text can be named `key.png`.
    if not is_of(part.type, data):
        raise _Refused("not_media")
    return _Taken(data, type_of(part.media_type, data, part.uri), part.uri)


def _embedded(part: Part, uri: str) -> _Taken | None:
    """The bytes of a data URL (RFC 2397)."""
    head, comma, body = uri[5:].partition(",")
    if len(body) > 2 * MAX_BLOB:
        raise _too_large(len(body))
    try:
        data = (
            base64.b64decode("".join(body.split()), validate=True)
            if head.endswith(";base64")
            else unquote_to_bytes(body)
        )
    except (binascii.Error, ValueError):
        raise _Refused("no_base64") from None
    if not comma:
        raise _Refused("no_data_url")
    named = head.removesuffix(";base64").split(";")[0].strip()
    unfit = named if named and not fits(part.type, named) else None
    named = UNKNOWN if unfit else named
    return _Taken(_checked(data), type_of(part.media_type or named, data), None, unfit)


def _path_of(uri: str) -> str | None:
    """The path that a URI means; None for an address."""
    if uri[:7].lower() == "file://":
        return unquote(urlsplit(uri).path)
    return None if not uri or _SCHEME.match(uri) else uri


def _read(given: str, folder: Path) -> bytes:
    """The bytes of a regular file in `folder` or below, with every link followed before that is asked."""
    try:
        root = folder.resolve()
        path = (root / given).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise _Refused("not_found") from None
    if not path.is_relative_to(root):
        raise _Refused("outside_of_the_folder")
    try:
        # Neither a link put there meanwhile nor a pipe without a writer may hold us.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise _Refused("not_readable") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _Refused("no_file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(MAX_BLOB + 1)
    finally:
        os.close(handle)
    if len(data) > MAX_BLOB:
        raise _Refused("too_large")
    return data


def _checked(data: bytes) -> bytes:
    if len(data) > MAX_BLOB:
        raise _too_large(len(data))
    return data


def _too_large(size: int) -> RecordError:
    return RecordError("blob_too_large", f"embedded content of {size} bytes, the limit is {MAX_BLOB}")
