"""Media types and file name endings, the same on every machine (the standard library asks the system's own tables)."""

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
_SIGNATURES = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"OggS", "audio/ogg"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"%PDF-", "application/pdf"),
)


def ending_of(media_type: str | None) -> str:
    """The ending of a file of this type, with its dot; ".bin" where the type is not known."""
    name = (media_type or "").split(";")[0].strip().lower()
    return _ENDINGS.get(_ALIASES.get(name, name), ".bin")


def type_of(given: str | None, data: bytes, name: str = "") -> str:
    """The media type: the given one, else what the bytes begin with, else what the name ends with."""
    if given and given != UNKNOWN:
        return given
    for start, mark, kind in _SIGNATURES:
        if data.startswith(mark, start):
            return kind
    return next((kind for ending, kind in _BY_ENDING.items() if name.lower().endswith(ending)), UNKNOWN)


def is_page(part: Part) -> bool:
    """Whether a part is a web page's text, in the row or as a blob."""
    return part.media_type in PAGES and part.type in (PartType.TEXT, PartType.FILE)
