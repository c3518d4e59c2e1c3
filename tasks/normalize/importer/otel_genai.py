"""OpenTelemetry GenAI spans (`gen_ai.*`): OTLP JSON, or flat spans as lines or a list.

The spans of a trace are read together: model calls whose messages repeat each other are one conversation, the
calls of a trace that do not are trajectories of their own.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Policy
from tasks.normalize.base import Importer
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.exchanges import Conversation, Exchange, conversations
from tasks.normalize.known import lose_unknown
from tasks.normalize.reading import Reading
from tasks.normalize.strict import decode
from tasks.normalize.transcript import a_dict, a_list, an_object, transcript

_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_USED = frozenset(
    {
        _INPUT,
        _OUTPUT,
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.conversation.id",
    }
)
_FLAT = """traceId trace_id context{trace_id} attributes events[]{attributes} startTimeUnixNano start_time_unix_nano
    start_time startTime"""
_SPAN = f"""{_FLAT}
    resourceSpans[]{{scopeSpans[]{{spans[]{{{_FLAT}}}}}}} resource_spans[]{{scope_spans[]{{spans[]{{{_FLAT}}}}}}}"""
_MEDIA = {"blob": "data", "uri": "uri", "file": "file_id"}


class OtelGenai(Importer, frozen=True, kw_only=True):
    """Reads spans that carry their messages (`gen_ai.input.messages` and `gen_ai.output.messages`)."""

    def takes_whole(self, path: Path) -> bool:
        """Spans of one trace stand on several lines."""
        return True

    def read(self, record: Any) -> Sequence[Reading]:
        """The conversations of every trace in the file."""
        traces: dict[str, list[dict[str, Any]]] = {}
        lost = Draft()
        for span in _spans(record, lost):
            lost.lost.update(f"attributes.{key}" for key in span["attributes"] if _is_other(key))
            if _INPUT in span["attributes"] or _OUTPUT in span["attributes"]:
                traces.setdefault(str(span["trace"]), []).append(span)
        if not traces:
            raise RecordError("no_messages", "no span carries gen_ai.input.messages or gen_ai.output.messages")
        readings: list[Reading] = []
        for trace, spans in traces.items():
            ordered = sorted(spans, key=lambda span: str(span["start"]).zfill(24))
            talks = conversations([_exchange(span) for span in ordered])
            readings.extend(
                _reading(talk, trace, number, lost.lost, self.drop_fields) for number, talk in enumerate(talks)
            )
        return readings


def _spans(record: Any, lost: Draft) -> Iterator[dict[str, Any]]:
    """Every span, flat: trace, start, attributes as plain data."""
    for item in record if isinstance(record, list) else [record]:
        part = an_object(item, "a span")
        lose_unknown(lost, part, _SPAN, "spans")
        groups = part.get("resourceSpans") or part.get("resource_spans")
        if groups is None:
            yield _flat(part)
            continue
        for group in a_list(groups, "resourceSpans"):
            scopes = a_dict(group).get("scopeSpans") or a_dict(group).get("scope_spans")
            for scope in a_list(scopes, "scopeSpans"):
                for span in a_list(a_dict(scope).get("spans"), "spans"):
                    yield _flat(an_object(span, "a span"))


def _flat(span: dict[str, Any]) -> dict[str, Any]:
    context = a_dict(span.get("context"))
    given = span.get("attributes")
    attributes = (
        {a_dict(one).get("key"): _value(a_dict(one).get("value")) for one in given}
        if isinstance(given, list)
        else a_dict(given)
    )
    events = span.get("events")
    for event in events if isinstance(events, list) else []:
        # Some instrumentations put the messages on an event.
        inner = a_dict(event).get("attributes")
        if isinstance(inner, dict):
            attributes = {**inner, **attributes}
    names = ("traceId", "trace_id")
    starts = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime")
    return {
        "trace": next((span[name] for name in names if span.get(name)), context.get("trace_id")),
        "start": next((span[name] for name in starts if span.get(name) is not None), ""),
        "attributes": attributes,
    }


def _value(value: Any) -> Any:
    """OTLP's typed values as plain data."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    name, inner = next(iter(value.items()))
    if name == "arrayValue":
        return [_value(item) for item in a_list(a_dict(inner).get("values"), "arrayValue")]
    if name == "kvlistValue":
        return {
            a_dict(kv).get("key"): _value(a_dict(kv).get("value"))
            for kv in a_list(a_dict(inner).get("values"), "kvlistValue")
        }
    if name == "intValue":
        return int(inner) if isinstance(inner, str) and inner.lstrip("-").isdigit() and len(inner) < 20 else inner
    return inner


def _exchange(span: dict[str, Any]) -> Exchange:
    attributes = span["attributes"]
    given: list[dict[str, Any]] = []
    system = _parsed(attributes.get("gen_ai.system_instructions"))
    if system:
        parts = system if isinstance(system, list) else [system]
        given.append({"role": "system", "content": [_part(part) for part in parts]})
    for message in a_list(_parsed(attributes.get(_INPUT)), _INPUT):
        given.extend(_messages(an_object(message, "a message")))
    answer = [
        m
        for message in a_list(_parsed(attributes.get(_OUTPUT)), _OUTPUT)
        for m in _messages(an_object(message, "a message"))
    ]
    model = attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model")
    usage = {
        key.rpartition(".")[2]: value
        for key, value in attributes.items()
        if isinstance(key, str) and "gen_ai.usage." in key
    }
    about = {"model": model, "usage": usage or None, "timestamp": str(span["start"]) or None, "attributes": attributes}
    about["tools"] = attributes.get("gen_ai.tool.definitions")
    return Exchange(given, answer, about)


def _is_other(key: Any) -> bool:
    """Whether an attribute is neither read nor a token count."""
    return key not in _USED and ".usage." not in str(key)


def _parsed(value: Any) -> Any:
    return (
        decode(value.encode("utf-8", "surrogatepass")).value if isinstance(value, str) and value[:1] in "[{" else value
    )


def _messages(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message of parts as chat messages: calls and thoughts beside the text, one message for each response."""
    role = message.get("role")
    made: dict[str, Any] = {"role": role, "content": None}
    if message.get("finish_reason") is not None:
        made["finish_reason"] = message["finish_reason"]
    if isinstance(message.get("content"), str):
        return [{**made, "content": message["content"]}]
    results: list[dict[str, Any]] = []
    parts: list[Any] = []
    for part in a_list(message.get("parts"), "parts"):
        kind = a_dict(part).get("type")
        if kind == "tool_call":
            function = {"name": part.get("name"), "arguments": part.get("arguments")}
            made.setdefault("tool_calls", []).append({"id": part.get("id"), "function": function})
        elif kind == "tool_call_response":
            response = part.get("response", part.get("result"))
            content = response if isinstance(response, str) else compact(response)
            results.append({"role": "tool", "tool_call_id": part.get("id"), "content": content})
        elif kind == "reasoning":
            before = made.get("reasoning_content")
            thought = str(part.get("content") or "")
            made["reasoning_content"] = f"{before}\n\n{thought}" if before else thought
        else:
            parts.append(_part(part))
    if parts:
        made["content"] = parts[0]["text"] if len(parts) == 1 and "text" in parts[0] else parts
    if results and not parts:
        return results
    return [*results, made]


def _part(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    inner = a_dict(part)
    if inner.get("type") == "text":
        return {"type": "text", "text": inner.get("content")}
    if inner.get("type") in _MEDIA:
        source = inner.get(_MEDIA[inner["type"]]) or inner.get("content")
        modality = inner.get("modality") if inner.get("modality") in ("image", "audio", "video") else "file"
        return {"type": modality, modality: source, "media_type": inner.get("mime_type")}
    return part


def _reading(talk: Conversation, trace: str, number: int, lost: set[str], drop: Sequence[str]) -> Reading:
    attributes: dict[Any, Any] = talk.last.about["attributes"]
    for message in talk.messages:
        message.pop("attributes", None)
    draft = Draft()
    kept = {str(key): value for key, value in attributes.items() if _is_other(key)}
    draft.lost.update(lost - {f"attributes.{key}" for key in kept})
    key = attributes.get("gen_ai.conversation.id") or trace
    name = attributes.get("gen_ai.agent.name")
    model = talk.about("model")
    return transcript(
        talk.messages,
        draft,
        {"attributes": kept or None},
        tools=_parsed(talk.about("tools")),
        drop=drop,
        policy=Policy(model=model if isinstance(model, str) else None, role=name if isinstance(name, str) else None),
        source_id=f"{key}#{number}" if number else str(key),
    )
