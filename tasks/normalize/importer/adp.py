"""Legacy ADP: `{"id", "content": [items tagged by class_], "details"}`, of schema 1.0 to 1.2.

An action and the environment's observations right after it become one agent step. `description` is the thought
and becomes the step's text beside a call; beside a message it becomes the reasoning.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from schemas.errors import RecordError
from schemas.trajectory import Outcome, Part, Step, ToolCall, ToolResult
from schemas.vocabulary import PairedBy, PartType, Source
from tasks.normalize.base import Importer
from tasks.normalize.content import json_part
from tasks.normalize.decoder.found import Found, code_call, compact, from_value
from tasks.normalize.draft import Draft, pair
from tasks.normalize.known import lose_unknown
from tasks.normalize.reading import Reading

_ACTIONS = frozenset({"api_action", "code_action", "message_action"})
_COMMON = {"class_", "reasoning_content", "reward", "tool_call_id", "description"}
_KNOWN = {
    "api_action": _COMMON | {"function", "kwargs"},
    "code_action": _COMMON | {"language", "content"},
    "message_action": _COMMON | {"content"},
    "text_observation": _COMMON | {"content", "name", "source"},
    "json_observation": _COMMON | {"content", "name", "source"},
    "image_observation": _COMMON | {"content", "annotations", "source"},
    "web_observation": _COMMON | {"html", "axtree", "url", "image_observation", "viewport_size", "source"},
}
_TOP = {"id", "content", "details", "schema_version", "available_apis", "available_custom_tools"}


class Adp(Importer, frozen=True, kw_only=True):
    """Reads legacy ADP trajectories, whose outcome, where there is one, stands in `details`."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        if not isinstance(record, dict):
            raise RecordError("not_an_object", f"the record is {type(record).__name__}")
        items = record.get("content")
        if not isinstance(items, list):
            raise RecordError("no_messages", "no list 'content'")
        draft = Draft()
        offered = record.get("available_apis")
        tools = draft.tools(offered) if isinstance(offered, list) else None
        index = 0
        while index < len(items):
            kind = _kind(items[index], index)
            if kind in _ACTIONS:
                index = _action(items, index, draft, tools)
            else:
                draft.steps.append(_observation_step(items[index], kind, draft))
                index += 1
        details = record.get("details")
        outcome = Outcome()
        if isinstance(details, dict) and details:
            outcome = draft.outcome({key: _typed(value) for key, value in details.items()})
            draft.extra["details"] = details
        for key in ("schema_version", "available_custom_tools", "available_code_languages"):
            if record.get(key) is not None:
                draft.extra[key] = record[key]
        known = _TOP | {"available_code_languages"}
        source_id = str(record["id"]) if record.get("id") is not None else None
        made = draft.finish(record, known=known, drop=self.drop_fields, outcome=outcome, source_id=source_id)
        return (Reading(made),)


def _kind(item: Any, index: int) -> str:
    kind = item.get("class_") if isinstance(item, dict) else None
    # ADP's web observations carry no tag of their own.
    if kind is None and isinstance(item, dict) and "axtree" in item:
        return "web_observation"
    if not isinstance(kind, str) or kind not in _KNOWN:
        raise RecordError("unknown_class", f"content {index} has the class_ {str(kind)[:80]!r}")
    return kind


def _typed(value: Any) -> Any:
    """ADP writes every detail as text; a flag or number written so is one."""
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("true", "false"):
            return word == "true"
        try:
            return float(word) if word not in ("nan", "inf", "-inf", "infinity", "-infinity") else value
        except ValueError:
            return value
    return value


def _action(items: list[Any], index: int, draft: Draft, tools: int | None) -> int:
    """One agent step: an action, further bare calls beside it, and the observations that answer them."""
    first, kind = items[index], _kind(items[index], index)
    group = [first]
    if kind != "message_action":
        while index + len(group) < len(items) and _beside(first, items[index + len(group)]):
            group.append(items[index + len(group)])
    for item in group:
        draft.lose_rest(item, _KNOWN[item["class_"]], f"content[].{item['class_']}")
    extra: dict[str, Any] = {}
    calls: tuple[ToolCall, ...] = ()
    reasoning = _text(first, "reasoning_content")
    thought = _text(first, "description")
    if kind == "message_action":
        content: tuple[Part, ...] = (Part(text=_need(first, "content", index)),)
        if thought is not None and reasoning is None:
            reasoning, thought = thought, None
            extra["thought"] = "description"
        if thought is not None:
            extra["description"] = thought
    else:
        calls = draft.calls(tuple(_call(item, index) for item in group))
        content = () if thought is None else (Part(text=thought),)
    after = index + len(group)
    results: list[ToolResult] = []
    observed: list[dict[str, Any]] = []
    while calls and after < len(items) and _answers(items[after], after, calls, results):
        results.append(_result(items[after], draft))
        observed.append(_content(items[after], _kind(items[after], after))[1])
        after += 1
    if any(observed):
        extra["observed"] = observed
    if reasoning is not None:
        draft.thinking = True
    rewards = [item.get("reward") for item in [*group, *items[index + len(group) : after]]]
    given = [float(n) for n in rewards if isinstance(n, int | float) and not isinstance(n, bool)]
    if len(given) > 1:
        extra["rewards"] = rewards
    draft.steps.append(
        Step(
            source=Source.AGENT,
            content=content,
            reasoning=reasoning,
            tool_calls=calls,
            results=pair(calls, results),
            tools=tools,
            reward=given[0] if given else None,
            extra_json=compact(extra) if extra else None,
        )
    )
    return after


def _beside(first: dict[str, Any], item: Any) -> bool:
    """Whether `item` is a further call of the same turn: a call without a thought of its own."""
    return (
        isinstance(item, dict)
        and item.get("class_") in ("api_action", "code_action")
        and item.get("description") is None
        and item.get("reasoning_content") is None
        and (item.get("tool_call_id") is None) == (first.get("tool_call_id") is None)
    )


def _answers(item: Any, index: int, calls: tuple[ToolCall, ...], results: list[ToolResult]) -> bool:
    """Whether an item answers one of the calls: by its id, or as the environment's next word."""
    if _kind(item, index) in _ACTIONS:
        return False
    key = item.get("tool_call_id")
    if key is not None:
        return any(call.source_id == key for call in calls)
    return item.get("source", "environment") == "environment" and len(results) < len(calls)


def _call(item: dict[str, Any], index: int) -> Found:
    key = item.get("tool_call_id")
    source_id = key if isinstance(key, str) else None
    if item["class_"] == "code_action":
        found = code_call(_need(item, "language", index), _need(item, "content", index))
        return msgspec.structs.replace(found, source_id=source_id)
    kwargs = item.get("kwargs")
    return from_value(_need(item, "function", index), {} if kwargs is None else kwargs, source_id)


def _need(item: dict[str, Any], key: str, index: int) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise RecordError("wrong_type", f"content {index} has no text '{key}'")
    return value


def _text(item: dict[str, Any], key: str) -> str | None:
    value = item.get(key)
    return value if isinstance(value, str) else None


def _observation_step(item: dict[str, Any], kind: str, draft: Draft) -> Step:
    _lose(item, kind, draft)
    source = item.get("source", "environment")
    name = _text(item, "name")
    content, extra = _content(item, kind)
    reward = item.get("reward")
    if source == "environment" and name == "system":
        return Step(source=Source.SYSTEM, content=content)
    if item.get("tool_call_id") is not None:
        more = compact({"observed": [extra]}) if extra else None
        return Step(source=Source.ENVIRONMENT, results=(_result(item, draft),), extra_json=more)
    if source == "agent":
        extra["class"] = kind
    return Step(
        source=Source.USER if source == "user" else Source.AGENT if source == "agent" else Source.ENVIRONMENT,
        content=content,
        name=name,
        reward=float(reward) if isinstance(reward, int | float) else None,
        extra_json=compact(extra) if extra else None,
    )


def _lose(item: dict[str, Any], kind: str, draft: Draft) -> None:
    draft.lose_rest(item, _KNOWN[kind], f"content[].{kind}")
    image = item.get("image_observation")
    lose_unknown(draft, image, "class_ content annotations source", f"content[].{kind}.image_observation")


def _result(item: dict[str, Any], draft: Draft) -> ToolResult:
    kind = item.get("class_") or "web_observation"
    _lose(item, kind, draft)
    content, _ = _content(item, kind)
    return ToolResult(
        source_call_id=_text(item, "tool_call_id"),
        name=_text(item, "name"),
        content=content,
        paired_by=PairedBy.NONE,
    )


def _content(item: dict[str, Any], kind: str) -> tuple[tuple[Part, ...], dict[str, Any]]:
    """The parts of an observation, and what no part can hold."""
    if kind == "text_observation":
        return (Part(text=_need(item, "content", 0)),), {}
    if kind == "json_observation":
        return (json_part(item.get("content")),), {}
    if kind == "image_observation":
        extra = {"annotations": item["annotations"]} if item.get("annotations") else {}
        return (Part(type=PartType.IMAGE, uri=_need(item, "content", 0)),), extra
    url = _text(item, "url")
    parts = [Part(type=PartType.FILE, uri=url, media_type="text/uri-list")] if url is not None else []
    if (tree := _text(item, "axtree")) is not None:
        parts.append(Part(text=tree, media_type="text/x-axtree"))
    if (html := _text(item, "html")) is not None:
        parts.append(Part(text=html, media_type="text/html"))
    image = item.get("image_observation")
    extra = {"viewport_size": item["viewport_size"]} if item.get("viewport_size") else {}
    if isinstance(image, dict) and isinstance(image.get("content"), str):
        parts.append(Part(type=PartType.IMAGE, uri=image["content"]))
        if image.get("annotations"):
            extra["annotations"] = image["annotations"]
    return tuple(parts), extra
