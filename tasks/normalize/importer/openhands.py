"""OpenHands V0 event logs: a list of `{"source", "action" or "observation", "args", "content", "cause"…}`.

The list is a file of its own, or the `history` of a row of an evaluation's output. An action of the agent is a
turn; an observation answers the action that it names as its cause. Calls that one answer of the model made
together (`tool_call_metadata`) stay together.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Policy
from tasks.normalize.base import Importer
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.known import lose_unknown
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_dict, an_object, transcript

_FIELDS = ("history", "trajectory", "events")
_MODEL = """tool_call_metadata{function_name tool_call_id total_calls_in_response model_response{
    id model usage choices[]{message{role content tool_calls}}}}"""
_ACTION = f"id timestamp source message action args cause {_MODEL}"
_OBSERVATION = f"id timestamp source message observation content cause {_MODEL}"
_SPOKEN = frozenset({"message", "system"})
# Events about the session itself, not about what was said or done.
_SILENT = frozenset({"agent_state_changed", "change_agent_state", "null", "recall", "condensation"})


class Openhands(Importer, frozen=True, kw_only=True):
    """Reads OpenHands V0 events."""

    def takes_whole(self, path: Path) -> bool:
        """A JSON list of events is one log; a list or lines of rows are many."""
        return holds_events(path, (b'"action"', b'"observation"'))

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        if isinstance(record, list):
            record = {"history": record}
        record = an_object(record)
        field = next((name for name in _FIELDS if isinstance(record.get(name), list)), None)
        if field is None:
            raise RecordError("no_messages", f"no list of events in {', '.join(_FIELDS)}")
        draft = Draft()
        events = [an_object(event, "an event") for pair in record[field] for event in _each(pair)]
        messages, tools = _messages(events, draft)
        return (
            transcript(
                messages,
                draft,
                record,
                tools=tools,
                known={field},
                drop=self.drop_fields,
                policy=Policy(harness="openhands"),
            ),
        )


def holds_events(path: Path, marks: tuple[bytes, ...]) -> bool:
    """Whether a file is one JSON list whose first object already has one of `marks` at its top."""
    with path.open("rb") as file:
        head = file.read(65_536).lstrip()
    return head.startswith(b"[") and any(mark in head for mark in marks) and b'"history"' not in head


def _each(entry: Any) -> list[Any]:
    # Old outputs hold [action, observation] pairs.
    return entry if isinstance(entry, list) else [entry]


def _messages(events: list[dict[str, Any]], draft: Draft) -> tuple[list[dict[str, Any]], Any]:
    messages: list[dict[str, Any]] = []
    calls: dict[str, str] = {}
    turns: dict[str, dict[str, Any]] = {}
    tools: Any = None
    for event in events:
        kind = str(event.get("action") or event.get("observation"))
        lose_unknown(draft, event, _ACTION if "action" in event else _OBSERVATION, f"events.{kind}")
        args = a_dict(event.get("args"))
        made: dict[str, Any] = {"timestamp": event.get("timestamp")}
        if kind in _SILENT:
            draft.lose(f"events.{kind}")
            continue
        if "action" in event and kind in _SPOKEN:
            if kind == "system":
                tools = args.get("tools")
            role = "system" if kind == "system" else "assistant" if event.get("source") == "agent" else "user"
            made.update(role=role, content=_said(args, event))
            if role == "assistant":
                made.update(_measured(event))
            messages.append(made)
        elif "action" in event:
            call = _call(event, kind, args)
            calls[str(event.get("id"))] = call["id"]
            response = _response_id(event)
            if response in turns:
                turns[response]["tool_calls"].append(call)
                continue
            if response:
                turns[response] = made
            agent = event.get("source", "agent") == "agent"
            made.update(role="assistant", content=args.get("thought") or None, tool_calls=[call], **_measured(event))
            if not agent:
                made["acted_by"] = event["source"]
            messages.append(made)
        elif "observation" in event:
            content = event.get("content")
            made = {"role": "tool", "content": content if isinstance(content, str) else compact(content)}
            key = calls.get(str(event.get("cause")))
            if key is not None:
                made["tool_call_id"] = key
            if kind == "error":
                made["is_error"] = True
            messages.append(made)
        else:
            draft.lose("events.unknown")
    return messages, tools


def _said(args: dict[str, Any], event: dict[str, Any]) -> Any:
    text = args.get("content")
    images = args.get("image_urls")
    if isinstance(images, list) and images:
        return [{"type": "text", "text": text or ""}, *({"type": "image_url", "image_url": url} for url in images)]
    return text if text is not None else event.get("message")


def _call(event: dict[str, Any], kind: str, args: dict[str, Any]) -> dict[str, Any]:
    """The call as the model made it, where the log has it, else the action's name and arguments."""
    meta = a_dict(event.get("tool_call_metadata"))
    key = meta.get("tool_call_id") or f"event_{event.get('id')}"
    for call in _response_calls(meta):
        if isinstance(call, dict) and call.get("id") == key and isinstance(call.get("function"), dict):
            return {"id": key, "function": call["function"]}
    given = {name: value for name, value in args.items() if name != "thought" and value is not None}
    name = meta.get("function_name")
    return {"id": key, "function": {"name": name if isinstance(name, str) else kind, "arguments": given}}


def _response(meta: Any) -> dict[str, Any]:
    response = meta.get("model_response") if isinstance(meta, dict) else None
    return a_dict(response)


def _response_calls(meta: dict[str, Any]) -> list[Any]:
    choices = _response(meta).get("choices")
    message = (
        choices[0].get("message") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    )
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    return calls if isinstance(calls, list) else []


def _response_id(event: dict[str, Any]) -> str:
    """The id of the model's answer that an action comes from; "" where the log does not say."""
    return str(_response(event.get("tool_call_metadata")).get("id") or "")


def _measured(event: dict[str, Any]) -> dict[str, Any]:
    response = _response(event.get("tool_call_metadata"))
    found = {"model": response.get("model"), "usage": response.get("usage")}
    return {key: value for key, value in found.items() if value is not None}
