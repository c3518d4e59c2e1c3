"""Codex sessions: JSONL of `{"timestamp", "type", "payload"}` whose `response_item`s are Responses items.

Older sessions have the items bare, after a first line about the session. What the log says a second time for its
own display (`event_msg`) is left out and named; of it only the token counts are read.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Policy
from tasks.normalize.base import Importer
from tasks.normalize.decoder.response_items import messages_of
from tasks.normalize.draft import Draft
from tasks.normalize.known import lose_unknown
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_dict, an_object, transcript

_META = frozenset({"session_meta", "turn_context"})
_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "local_shell_call"})


class Codex(Importer, frozen=True, kw_only=True):
    """Reads Codex's session logs."""

    def takes_whole(self, path: Path) -> bool:
        """A session is a file."""
        return True

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory; what follows a compaction goes on in it."""
        lines = [an_object(line, "a line") for line in (record if isinstance(record, list) else [record])]
        draft = Draft()
        items: list[dict[str, Any]] = []
        about: dict[str, Any] = {}
        model: Any = None
        for line in lines:
            kind, payload = str(line.get("type")), a_dict(line.get("payload"))
            if "payload" in line:
                lose_unknown(draft, line, "timestamp type payload", "lines")
            if kind == "response_item":
                items.append({**payload, "timestamp": line.get("timestamp"), "model": model})
            elif kind in _META:
                model = payload.get("model") or model
                about.update({key: value for key, value in payload.items() if value is not None})
            elif kind == "event_msg" and payload.get("type") == "token_count":
                lose_unknown(draft, payload, "type info{last_token_usage}", "lines.event_msg.token_count")
                _count(items, a_dict(payload.get("info")))
            elif kind in _ITEMS:
                items.append({**line, "model": model})
            elif "payload" not in line and "id" in line and not items:
                about.update({key: value for key, value in line.items() if value is not None})
            else:
                draft.lose(f"lines.{kind}.{payload['type']}" if payload.get("type") else f"lines.{kind}")
        messages = messages_of(items, draft)
        if not messages:
            raise RecordError("no_messages", "no response item in the session")
        for message in messages:
            if isinstance(message, dict) and message.get("role") != "assistant":
                message.pop("model", None)
            if isinstance(message, dict) and message.get("role") == "tool":
                message.pop("timestamp", None)
        instructions = about.pop("instructions", None) or about.pop("base_instructions", None)
        if instructions:
            text = instructions if isinstance(instructions, str) else a_dict(instructions).get("text")
            messages.insert(0, {"role": "system", "content": text})
        key, version = about.pop("id", None), about.get("cli_version")
        about.pop("model", None)
        policy = Policy(
            model=model if isinstance(model, str) else None,
            harness="codex",
            harness_version=version if isinstance(version, str) else None,
        )
        source_id = key if isinstance(key, str) else None
        return (transcript(messages, draft, about, drop=self.drop_fields, policy=policy, source_id=source_id),)


def _count(items: list[dict[str, Any]], info: dict[str, Any]) -> None:
    """Gives the last call's token counts to the last item that the model produced."""
    usage = info.get("last_token_usage")
    if not isinstance(usage, dict):
        return
    for item in reversed(items):
        if item.get("role") == "assistant" or str(item.get("type")).endswith("_call"):
            item.setdefault("usage", usage)
            return
