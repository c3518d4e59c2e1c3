"""Message content to parts: plain text, or a list of text, image, audio, video and file parts.

Media are parts with a URI, embedded ones with a data URL; `tasks.normalize.media` then takes their content out of the
rows.
"""

from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Part
from schemas.vocabulary import PartType
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft

_TEXT = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_PLACES = ("image_url", "source", "url", "data", "file_data", "path")
_MEDIA_FIELDS = frozenset({"type", "media_type", "mime_type", *_PLACES})
_SOURCE_FIELDS = frozenset(
    {"type", "media_type", "mime_type", "format", "url", "uri", "path", "data", "file_data", "bytes"}
)
_MEDIA = {
    "image": PartType.IMAGE,
    "image_url": PartType.IMAGE,
    "input_image": PartType.IMAGE,
    "audio": PartType.AUDIO,
    "audio_url": PartType.AUDIO,
    "input_audio": PartType.AUDIO,
    "video": PartType.VIDEO,
    "video_url": PartType.VIDEO,
    "input_video": PartType.VIDEO,
    "file": PartType.FILE,
    "input_file": PartType.FILE,
    "document": PartType.FILE,
}


def parts_of(value: Any, draft: Draft, where: str) -> tuple[Part, ...]:
    """The parts of a `content` value: text, a list of parts, or None. Raises RecordError for anything else."""
    if type(value) is str:
        return (Part(text=value),)
    if value is None:
        return ()
    if isinstance(value, list):
        return tuple(part for item in value if (part := _part(item, draft, where)) is not None)
    if isinstance(value, dict):
        part = _part(value, draft, where)
        return () if part is None else (part,)
    raise RecordError("wrong_type", f"{where} is {type(value).__name__}, neither text nor parts")


def _part(item: Any, draft: Draft, where: str) -> Part | None:
    if isinstance(item, str):
        return Part(text=item)
    if not isinstance(item, dict):
        raise RecordError("wrong_type", f"{where}[] is {type(item).__name__}")
    kind = item.get("type") if isinstance(item.get("type"), str) else None
    if kind in _TEXT or (kind is None and isinstance(item.get("text"), str)):
        draft.lose_rest(item, {"type", "text"}, f"{where}[]")
        text = item.get("text")
        return Part(text=text) if isinstance(text, str) else None
    if kind in _MEDIA:
        return _media(item, kind, draft, where)
    if kind == "refusal" and isinstance(item.get("refusal"), str):
        return Part(text=item["refusal"])
    draft.lose(f"{where}[].{kind or 'part'}")
    return None


def _media(item: dict[str, Any], kind: str, draft: Draft, where: str) -> Part | None:
    draft.lose_rest(item, _MEDIA_FIELDS | {kind}, f"{where}[].{kind}")
    source = next((item[key] for key in (kind, *_PLACES) if item.get(key)), None)
    media_type = item.get("media_type") or item.get("mime_type")
    if isinstance(source, dict):
        draft.lose_rest(source, _SOURCE_FIELDS, f"{where}[].{kind}")
        media_type = source.get("media_type") or source.get("mime_type") or media_type
        data = next((source[key] for key in ("data", "file_data", "bytes") if source.get(key)), None)
        if source.get("type") == "text" and isinstance(data, str):
            return Part(text=data, media_type="text/plain")
        if isinstance(data, str) and not data.startswith("data:"):
            fallback = (
                f"audio/{source.get('format', 'wav')}" if _MEDIA[kind] is PartType.AUDIO else "application/octet-stream"
            )
            data = f"data:{media_type or fallback};base64,{data}"
        source = data or source.get("url") or source.get("uri") or source.get("path")
    if not isinstance(source, str):
        draft.lose(f"{where}[].{kind}")
        return None
    return media(_MEDIA[kind], source, media_type if isinstance(media_type, str) else None)


def media(kind: PartType, uri: str, media_type: str | None = None) -> Part:
    """A media part by URI, with the media type that a data URL names."""
    if media_type is None and uri.startswith("data:"):
        media_type = uri[5:].partition(",")[0].split(";")[0] or None
    return Part(type=kind, uri=uri, media_type=media_type)


def json_part(value: Any) -> Part:
    """JSON data as a text part of media type application/json, so that it is not taken for prose."""
    return Part(text=compact(value), media_type="application/json")
