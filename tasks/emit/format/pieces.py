"""What the writers share: content, arguments, tools and outcome of a trajectory as plain JSON data."""

from typing import Any

import msgspec

from schemas.trajectory import Part, Step, ToolCall, Trajectory, text_of
from schemas.vocabulary import ArgumentState, PartType

_MEDIA_KEY = {
    PartType.IMAGE: "image_url",
    PartType.AUDIO: "audio_url",
    PartType.VIDEO: "video_url",
    PartType.FILE: "file_url",
}


# The audio formats of OpenAI's own parts, by media type.
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def content_of(parts: tuple[Part, ...]) -> Any:
    """None for no part, text for one text part, else a list of OpenAI content parts."""
    if not parts:
        return None
    if len(parts) == 1 and parts[0].type is PartType.TEXT:
        return parts[0].text or ""
    return [_part(part) for part in parts]


def _part(part: Part) -> dict[str, Any]:
    if part.type is PartType.TEXT:
        return {"type": "text", "text": part.text or ""}
    head, _, body = (part.uri or "").partition(";base64,")
    if part.type is PartType.AUDIO and head.removeprefix("data:") in _AUDIO and body:
        return {"type": "input_audio", "input_audio": {"data": body, "format": _AUDIO[head.removeprefix("data:")]}}
    if part.type is PartType.FILE and head.startswith("data:"):
        return {"type": "file", "file": {"file_data": part.uri}}
    key = _MEDIA_KEY[part.type]
    value = {"type": key, key: {"url": part.uri or f"sha256:{part.sha256}"}}
    if part.media_type and not (part.uri or "").startswith("data:"):
        value["media_type"] = part.media_type
    return value


def plain_text(parts: tuple[Part, ...]) -> str:
    """The text of the parts joined by line breaks, media as their URI in brackets."""
    if all(part.type is PartType.TEXT for part in parts) and len(parts) <= 1:
        return text_of(parts)
    return "\n".join(
        part.text or "" if part.type is PartType.TEXT else f"[{part.type.value}: {part.uri or part.sha256}]"
        for part in parts
    )


def argument_text(call: ToolCall) -> str:
    """The arguments as JSON text where they are JSON: the source's own text, or the canonical one beside code or
    markup; text that never parsed as it stands.
    """
    if call.state is not ArgumentState.PARSED or call.arguments_json is None:
        return call.arguments
    return call.arguments if call.arguments.lstrip().startswith("{") and _same(call) else call.arguments_json


def _same(call: ToolCall) -> bool:
    if call.arguments == call.arguments_json:
        return True
    try:
        return bool(msgspec.json.decode(call.arguments) == msgspec.json.decode(call.arguments_json or "null"))
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return False


def argument_object(call: ToolCall) -> dict[str, Any] | None:
    """The arguments as an object with its keys in the source's order, None where they never parsed."""
    if call.state is not ArgumentState.PARSED or call.arguments_json is None:
        return None
    value: dict[str, Any] = msgspec.json.decode(argument_text(call))
    return value


def is_code(call: ToolCall) -> bool:
    """Whether the raw arguments are a program (see `tasks.normalize.decoder.found.code_call`)."""
    return call.arguments_json is not None and argument_object(call) == {"code": call.arguments}


def tools_of(trajectory: Trajectory) -> list[Any]:
    """The tool schemas offered; of several sets every schema once, in order of appearance."""
    if len(trajectory.tool_sets) == 1:
        only: list[Any] = msgspec.json.decode(trajectory.tool_sets[0])
        return only
    found: dict[str, Any] = {}
    for text in trajectory.tool_sets:
        for schema in msgspec.json.decode(text):
            found.setdefault(msgspec.json.encode(schema).decode(), schema)
    return list(found.values())


def extra_of(holder: Step | Trajectory) -> dict[str, Any]:
    """The object in `extra_json`, {} where there is none."""
    value = msgspec.json.decode(holder.extra_json) if holder.extra_json else {}
    return value if isinstance(value, dict) else {}


def outcome_fields(trajectory: Trajectory) -> dict[str, Any]:
    """The outcome as top-level fields: those of the source, else success and score."""
    outcome = trajectory.outcome
    raw = msgspec.json.decode(outcome.raw_json) if outcome.raw_json else None
    if isinstance(raw, dict):
        return raw
    fields: dict[str, Any] = {}
    if outcome.success is not None:
        fields["success"] = outcome.success
    if outcome.score is not None:
        fields["score"] = outcome.score
    return fields


def top_fields(trajectory: Trajectory, extra: dict[str, Any], reserved: set[str]) -> dict[str, Any]:
    """Id, model, outcome and the kept fields of the source, under the names that the source gave them."""
    id_field, model_field = extra.pop("id_field", "id"), extra.pop("model_field", "model")
    numeric = extra.pop("id_type", None) == "int"
    fields: dict[str, Any] = {}
    key = trajectory.source_id or trajectory.id
    fields[id_field] = int(key) if numeric else key
    if trajectory.policy.model is not None:
        fields[model_field] = trajectory.policy.model
    fields.update(outcome_fields(trajectory))
    fields.update(extra)
    return {name: value for name, value in fields.items() if name not in reserved}
