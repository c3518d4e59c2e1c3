"""OpenHands SDK events: `{"kind": "MessageEvent" | "ActionEvent" | "ObservationEvent"…}`, a list or lines of them.

Calls of one answer of the model share `llm_response_id` and stay one turn.
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

_FIELDS = ("events", "history")
_ALL = "kind id timestamp source"
_CALL = "tool_name tool_call_id tool_call{id name arguments function origin} action llm_response_id"
_SAID = "observation action_id tool_name tool_call_id error rejection_reason"
_EVENTS = {
    "SystemPromptEvent": f"{_ALL} system_prompt{{type text}} tools",
    "MessageEvent": f"{_ALL} llm_message{{role content reasoning_content name}}",
    "ActionEvent": f"{_ALL} thought[]{{type text}} reasoning_content {_CALL}",
    "ObservationEvent": f"{_ALL} {_SAID}",
    "AgentErrorEvent": f"{_ALL} {_SAID}",
    "UserRejectObservation": f"{_ALL} {_SAID}",
}
_RESULTS = frozenset({"ObservationEvent", "AgentErrorEvent", "UserRejectObservation"})


class OpenhandsSdk(Importer, frozen=True, kw_only=True):
    """Reads the events of OpenHands' software-agent SDK."""

    def takes_whole(self, path: Path) -> bool:
        """A list or lines of events are one log; rows that hold events are many."""
        with path.open("rb") as file:
            head = file.read(65_536)
        return b'"kind"' in head and not any(f'"{name}"'.encode() in head for name in _FIELDS)

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        if isinstance(record, list):
            record = {"events": record}
        record = an_object(record)
        field = next((name for name in _FIELDS if isinstance(record.get(name), list)), None)
        if field is None:
            raise RecordError("no_messages", f"no list of events in {', '.join(_FIELDS)}")
        draft = Draft()
        messages, tools = _messages([an_object(event, "an event") for event in record[field]], draft)
        policy = Policy(harness="openhands-sdk")
        return (transcript(messages, draft, record, tools=tools, known={field}, drop=self.drop_fields, policy=policy),)


def _messages(events: list[dict[str, Any]], draft: Draft) -> tuple[list[dict[str, Any]], Any]:
    messages: list[dict[str, Any]] = []
    tools: Any = None
    open_response: Any = None
    for event in events:
        kind = str(event.get("kind"))
        if kind in _EVENTS:
            lose_unknown(draft, event, _EVENTS[kind], f"events.{kind}")
        response = event.get("llm_response_id")
        made: dict[str, Any] = {"timestamp": event.get("timestamp")}
        if kind == "SystemPromptEvent":
            tools = event.get("tools")
            messages.append({**made, "role": "system", "content": _text(event.get("system_prompt"))})
        elif kind == "MessageEvent":
            messages.append({**made, **_said(event)})
        elif kind == "ActionEvent":
            call = _call(event)
            if response is not None and response == open_response:
                messages[-1]["tool_calls"].append(call)
                continue
            made.update(role="assistant", content=_text(event.get("thought")) or None, tool_calls=[call])
            if isinstance(event.get("reasoning_content"), str):
                made["reasoning_content"] = event["reasoning_content"]
            messages.append(made)
        elif kind in _RESULTS:
            messages.append(_result(event, kind == "AgentErrorEvent", draft))
        else:
            draft.lose(f"events.{kind}")
            continue
        open_response = response if kind == "ActionEvent" else None
    return messages, tools


def _said(event: dict[str, Any]) -> dict[str, Any]:
    message = a_dict(event.get("llm_message"))
    default = "assistant" if event.get("source") == "agent" else "user"
    kept = {key: value for key, value in message.items() if key in ("reasoning_content", "name") and value}
    return {"role": message.get("role") or default, "content": message.get("content"), **kept}


def _call(event: dict[str, Any]) -> dict[str, Any]:
    call = a_dict(event.get("tool_call"))
    function = a_dict(call.get("function")) or call
    name = event.get("tool_name") or function.get("name")
    arguments = function.get("arguments")
    if arguments is None and isinstance(event.get("action"), dict):
        arguments = {key: value for key, value in event["action"].items() if key != "kind"}
    return {"id": event.get("tool_call_id") or call.get("id"), "function": {"name": name, "arguments": arguments}}


def _result(event: dict[str, Any], failed: bool, draft: Draft) -> dict[str, Any]:
    observation = event.get("observation")
    if failed or not isinstance(observation, dict):
        said = event.get("error") or event.get("rejection_reason") or observation
        content: Any = said if isinstance(said, str) else compact(said)
    else:
        given = next((observation[key] for key in ("content", "output") if observation.get(key) is not None), None)
        content = given if isinstance(given, str | list) else compact(observation)
        if content is given:
            lose_unknown(draft, observation, "kind content output is_error", "events.observation")
    made = {
        "role": "tool",
        "content": content,
        "tool_call_id": event.get("tool_call_id"),
        "name": event.get("tool_name"),
    }
    flagged = a_dict(observation).get("is_error")
    if failed or isinstance(flagged, bool):
        made["is_error"] = failed or flagged
    return made


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _text(value.get("text"))
    if isinstance(value, list):
        return "".join(text for part in value if (text := _text(part)))
    return None
