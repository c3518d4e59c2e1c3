"""A trajectory as legacy ADP: `{"id", "content": [items tagged by class_], "details"}`.

Raises RecordError where ADP has no word for something: a call whose arguments never parsed.
"""

from itertools import groupby
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Part, Step, ToolCall, ToolResult, Trajectory
from schemas.vocabulary import PartType, Source
from tasks.emit.format.pieces import argument_object, extra_of, is_code, outcome_fields, plain_text, tools_of
from tasks.normalize.decoder.found import compact

_WEB = frozenset({"text/uri-list", "text/x-axtree", "text/html"})


def write(trajectory: Trajectory) -> dict[str, Any]:
    """The record; fields of schema 1.1 and later stand in it only where they say something."""
    content: list[dict[str, Any]] = []
    for step in trajectory.steps:
        content.extend(_items(step))
    extra = extra_of(trajectory)
    details = extra.pop("details", None)
    if not isinstance(details, dict):
        details = {key: _word(value) for key, value in outcome_fields(trajectory).items()}
    record: dict[str, Any] = {"id": trajectory.source_id or trajectory.id, "content": content, "details": details}
    for key in ("schema_version", "available_custom_tools", "available_code_languages"):
        if key in extra:
            record[key] = extra[key]
    tools = tools_of(trajectory)
    if tools:
        record["available_apis"] = tools
    return record


def _shown(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """What stands in one observation: a page or text whole, an image beside text on its own."""
    if not any(part.type is PartType.IMAGE for part in parts) or any(part.media_type in _WEB for part in parts):
        return [parts]
    return [tuple(run) for _, run in groupby(parts, lambda part: part.type is PartType.IMAGE and id(part))]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _items(step: Step) -> list[dict[str, Any]]:
    extra = extra_of(step)
    if step.source is Source.AGENT and "class" not in extra:
        items = _actions(step, extra)
    elif step.source is Source.ENVIRONMENT and step.results and not step.content:
        items = []
    else:
        source = {Source.USER: "user", Source.AGENT: "agent"}.get(step.source, "environment")
        name = "system" if step.source is Source.SYSTEM else step.name
        items = [_observation(parts, source, name, extra) for parts in _shown(step.content)]
        if step.reward is not None:
            items[0]["reward"] = step.reward
    given = extra.get("observed")
    observed = given if isinstance(given, list) and len(given) == len(step.results) else [{}] * len(step.results)
    return [*items, *(_result(r, step.tool_calls, more) for r, more in zip(step.results, observed, strict=True))]


def _actions(step: Step, extra: dict[str, Any]) -> list[dict[str, Any]]:
    shared: dict[str, Any] = {}
    if step.reward is not None:
        shared["reward"] = step.reward
    if not step.tool_calls:
        item: dict[str, Any] = {"class_": "message_action", "content": plain_text(step.content)}
        if extra.get("thought") == "description":
            item["description"] = step.reasoning
        else:
            item["description"] = extra.get("description")
            if step.reasoning is not None:
                item["reasoning_content"] = step.reasoning
        return [item | shared]
    items = [_call(call) for call in step.tool_calls]
    items[0]["description"] = plain_text(step.content) if step.content else None
    if step.reasoning is not None:
        items[0]["reasoning_content"] = step.reasoning
    items[0].update(shared)
    return items


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = argument_object(call)
    if arguments is None:
        raise RecordError(f"arguments_{call.state.value}", f"call {call.id} of {call.name}")
    if is_code(call):
        item: dict[str, Any] = {"class_": "code_action", "language": call.name, "content": call.arguments}
    else:
        item = {"class_": "api_action", "function": call.name, "kwargs": arguments}
    item["description"] = None
    if call.source_id is not None:
        item["tool_call_id"] = call.source_id
    return item


def _result(result: ToolResult, calls: tuple[ToolCall, ...], extra: dict[str, Any]) -> dict[str, Any]:
    item = _observation(result.content, "environment", result.name, extra)
    own = next((call for call in calls if call.id == result.call_id), None)
    key = result.source_call_id or (own and own.source_id)
    if key:
        item["tool_call_id"] = key
    return item


def _observation(parts: tuple[Part, ...], source: str, name: str | None, extra: dict[str, Any]) -> dict[str, Any]:
    types = {part.media_type for part in parts if part.type is not PartType.IMAGE}
    if types and types <= _WEB:
        return _web(parts, extra)
    if len(parts) == 1 and parts[0].type is PartType.IMAGE:
        return {
            "class_": "image_observation",
            "content": parts[0].uri or f"sha256:{parts[0].sha256}",
            "annotations": extra.get("annotations"),
            "source": source,
        }
    return {"class_": "text_observation", "content": plain_text(parts), "name": name, "source": source}


def _web(parts: tuple[Part, ...], extra: dict[str, Any]) -> dict[str, Any]:
    by_type = {part.media_type: part for part in parts}
    image = next((part for part in parts if part.type is PartType.IMAGE), None)
    url = by_type.get("text/uri-list")
    return {
        "class_": "web_observation",
        "html": by_type["text/html"].text if "text/html" in by_type else None,
        "axtree": by_type["text/x-axtree"].text if "text/x-axtree" in by_type else None,
        "url": url.uri if url else None,
        "image_observation": image
        and {
            "class_": "image_observation",
            "content": image.uri or f"sha256:{image.sha256}",
            "annotations": extra.get("annotations"),
            "source": "environment",
        },
        "viewport_size": extra.get("viewport_size"),
    }
