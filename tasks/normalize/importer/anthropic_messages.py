"""Anthropic messages: `{"model", "system", "messages": [{"role", "content": [blocks]}], "tools"}`."""

from collections.abc import Sequence
from typing import Any

from schemas.errors import RecordError
from tasks.normalize.base import Importer
from tasks.normalize.decoder.anthropic_blocks import messages_of, tools_of
from tasks.normalize.draft import Draft
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_list, an_object, transcript


class AnthropicMessages(Importer, frozen=True, kw_only=True):
    """Reads Anthropic requests, with the answer appended where the record holds one (`response`)."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        record = an_object(record)
        # A logged exchange: the request and its response side by side.
        request = record.get("request") if isinstance(record.get("request"), dict) else record
        if not isinstance(request.get("messages"), list):
            raise RecordError("no_messages", "no list 'messages'")
        draft = Draft()
        messages: list[dict[str, Any]] = []
        system = request.get("system")
        if system:
            messages.append({"role": "system", "content": system})
        answer = record.get("response")
        for message in [*request["messages"], *([answer] if isinstance(answer, dict) else [])]:
            messages.extend(messages_of(_named(an_object(message, "a message")), draft))
        known = {"messages", "system", "tools", "request", "response"}
        if request is not record:
            draft.extra.update(draft.rest(request, known | {"model"}, "request."))
            record = {**record, "model": request.get("model")}
        return (
            transcript(
                messages,
                draft,
                record,
                tools=tools_of(a_list(request.get("tools"), "tools")),
                known=known,
                drop=self.drop_fields,
            ),
        )


def _named(message: dict[str, Any]) -> dict[str, Any]:
    """The message with Anthropic's `stop_reason` under the common name."""
    if "stop_reason" not in message:
        return message
    rest = {key: value for key, value in message.items() if key not in ("stop_reason", "type")}
    return {**rest, "finish_reason": message["stop_reason"]}
