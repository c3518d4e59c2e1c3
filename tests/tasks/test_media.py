"""What media are, their content says; a media type must be one, and one of its kind."""

import pytest

from schemas.vocabulary import PartType
from tasks.media import fits, is_of, sniffed, type_of

BMP = (
    b"BM" + (70).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little") + bytes(40)
)
CONTENT = [
    (b"\x89PNG\r\n\x1a\n...", "image/png", "image"),
    (b"\xff\xd8\xff\xe0...", "image/jpeg", "image"),
    (b"GIF89a...", "image/gif", "image"),
    (b"RIFF....WEBPVP8 ", "image/webp", "image"),
    (BMP, "image/bmp", "image"),
    (b"II*\x00....", "image/tiff", "image"),
    (b'<?xml version="1.0"?>\n<!-- a --><svg xmlns="x">', "image/svg+xml", "image"),
    (b"RIFF....WAVEfmt ", "audio/wav", "audio"),
    (b"ID3\x04", "audio/mpeg", "audio"),
    (b"\xff\xfb\x90", "audio/mpeg", "audio"),
    (b"OggS\x00", "audio/ogg", "audio"),
    (b"....ftypM4A ", "audio/mp4", "audio"),
    (b"....ftypisom", "video/mp4", "video"),
    (b"\x1aE\xdf\xa3", "video/webm", "video"),
    (b"%PDF-1.7", "application/pdf", None),
    (b"KEY=1", None, None),
    (b"BM KEY=1, and so on and on", None, None),
    (b"GIF8 is a word", None, None),
    (b"....WEBP and ....WAVE", None, None),
    (b"<!---->" * 500 + b"<p>svg <svg>", None, None),
    (b"", None, None),
]


@pytest.mark.parametrize(("data", "media_type", "kind"), CONTENT)
def test_content_is_known_by_its_signature(data: bytes, media_type: str | None, kind: str | None) -> None:
    assert sniffed(data) == media_type
    assert type_of(None, data, "x.gif") == (media_type or "image/gif")
    kinds = {one.value for one in (PartType.IMAGE, PartType.AUDIO, PartType.VIDEO) if is_of(one, data)}
    assert kinds - {"audio", "video"} == ({"image"} if kind == "image" else set())
    assert kind is None or kind in kinds
    assert is_of(PartType.FILE, data)


def test_a_media_type_is_a_pair_of_words_of_its_kind() -> None:
    good = ["image/png", "image/svg+xml", "IMAGE/PNG", "image/png; q=1", "application/octet-stream"]
    bad = [
        "image/../../x",
        "image",
        "image/",
        "/png",
        "text/html",
        "image/png\n",
        "image/png x",
        "image/a/b",
        "audio/wav",
    ]
    assert [one for one in (*good, *bad) if fits(PartType.IMAGE, one)] == good
    assert fits(PartType.FILE, "text/html; charset=utf-8") and not fits(PartType.FILE, "../etc")
    assert fits(PartType.AUDIO, "video/mp4") and not fits(PartType.AUDIO, "image/png")
