"""Media types, what content begins with, and file name endings; the system's own tables differ from these."""

import re

from schemas.trajectory import Part
from schemas.vocabulary import PartType

UNKNOWN = "application/octet-stream"
# What a web page's parts are: text that is stored like media, and read as text again.
PAGES = frozenset({"text/html", "text/x-axtree"})

_ENDINGS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/bmp": ".bmp",
    "image/tiff": ".tiff",
    "image/svg+xml": ".svg",
    "image/avif": ".avif",
    "image/heic": ".heic",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/flac": ".flac",
    "audio/ogg": ".ogg",
    "audio/mp4": ".m4a",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "video/quicktime": ".mov",
    "application/pdf": ".pdf",
    "application/json": ".json",
    "text/plain": ".txt",
    "text/html": ".html",
    "text/x-axtree": ".axtree.txt",
}
_ALIASES = {"image/jpg": "image/jpeg", "audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
_BY_ENDING = {**{ending: kind for kind, ending in _ENDINGS.items()}, ".jpeg": "image/jpeg", ".htm": "text/html"}
# Marks at their offsets; where several are given, all must be there. From the formats' own specifications.
_SIGNATURES: tuple[tuple[str, tuple[tuple[int, bytes], ...]], ...] = (
    ("image/png", ((0, b"\x89PNG\r\n\x1a\n"),)),
    ("image/jpeg", ((0, b"\xff\xd8\xff"),)),
    ("image/gif", ((0, b"GIF87a"),)),
    ("image/gif", ((0, b"GIF89a"),)),
    ("image/webp", ((0, b"RIFF"), (8, b"WEBP"))),
    # The reserved bytes and the size of the header tell a bitmap from a text that begins with "BM".
    ("image/bmp", ((0, b"BM"), (6, bytes(4)), (15, bytes(3)))),
    ("image/tiff", ((0, b"II*\x00"),)),
    ("image/tiff", ((0, b"MM\x00*"),)),
    ("image/avif", ((4, b"ftypavif"),)),
    ("image/heic", ((4, b"ftypheic"),)),
    ("audio/wav", ((0, b"RIFF"), (8, b"WAVE"))),
    ("audio/mpeg", ((0, b"ID3"),)),
    ("audio/mpeg", ((0, b"\xff\xfb"),)),
    ("audio/mpeg", ((0, b"\xff\xf3"),)),
    ("audio/mpeg", ((0, b"\xff\xf2"),)),
    ("audio/flac", ((0, b"fLaC"),)),
    ("audio/mp4", ((4, b"ftypM4A"),)),
    ("audio/ogg", ((0, b"OggS"),)),
    ("video/mp4", ((4, b"ftyp"),)),
    ("video/webm", ((0, b"\x1aE\xdf\xa3"),)),
    ("application/pdf", ((0, b"%PDF-"),)),
)
# These hold sound, pictures that move, or both.
_CONTAINERS = frozenset({"audio/ogg", "video/mp4", "video/webm"})
_SVG = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!--(?:(?!-->).)*+-->\s*+)*+"
    rb"(?:<!DOCTYPE svg[^>]*+>\s*+)?<svg[\s>]",
    re.S,
)
_SHOWN = 4096
_TOKEN = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"  # noqa: S105 - a word of RFC 6838, not a password
_TYPE = re.compile(rf"({_TOKEN})/{_TOKEN}(?:\s*;\s*{_TOKEN}=(?:{_TOKEN}|\"[\w .+-]*\"))*")
_OF_A_KIND = frozenset({PartType.IMAGE, PartType.AUDIO, PartType.VIDEO})


def ending_of(media_type: str | None) -> str:
    """The ending of a file of this type, with its dot; ".bin" where the type is not known."""
    name = (media_type or "").split(";")[0].strip().lower()
    return _ENDINGS.get(_ALIASES.get(name, name), ".bin")


def type_of(given: str | None, data: bytes, name: str = "") -> str:
    """The media type: the given one, else what the bytes begin with, else what the name ends with."""
    if given and given != UNKNOWN:
        return given
    return sniffed(data) or next(
        (kind for ending, kind in _BY_ENDING.items() if name.lower().endswith(ending)), UNKNOWN
    )


def sniffed(data: bytes) -> str | None:
    """The media type that the content itself shows, whatever its name; None where it shows none."""
    for kind, marks in _SIGNATURES:
        if all(data.startswith(mark, start) for start, mark in marks):
            return kind
    return "image/svg+xml" if _SVG.match(data[:_SHOWN]) else None


def is_of(kind: PartType, data: bytes) -> bool:
    """Whether content is an image, a sound or a video by what it begins with; a file may hold anything."""
    if kind not in _OF_A_KIND:
        return True
    shown = sniffed(data) or ""
    return shown.startswith(f"{kind}/") or (kind is not PartType.IMAGE and shown in _CONTAINERS)


def fits(kind: PartType, media_type: str) -> bool:
    """Whether a media type is well formed (RFC 6838) and one that a part of this kind can have."""
    match = _TYPE.fullmatch(media_type)
    if match is None:
        return False
    if kind not in _OF_A_KIND or media_type == UNKNOWN:
        return True
    return match[1].lower() == kind or (kind is not PartType.IMAGE and match[1].lower() in ("audio", "video"))


def is_page(part: Part) -> bool:
    """Whether a part is a web page's text, in the row or as a blob."""
    return part.media_type in PAGES and part.type in (PartType.TEXT, PartType.FILE)
