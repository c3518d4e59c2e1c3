"""OpenAI Responses: `{"instructions", "input": text or [items], "output": [items], "tools", "model", "usage"}`."""

from collections.abc import Sequence
from typing import Any

from schemas.errors import RecordError
from tasks.normalize.base import Importer
from tasks.normalize.decoder.response_items import messages_of, tools_of
from tasks.normalize.draft import Draft
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_list, an_object, transcript

KNOWN = frozenset({"instructions", "input", "output", "tools", "usage", "response", "request"})


class OpenaiResponses(Importer, frozen=True, kw_only=True):
    """Reads exchanges with the Responses API: input and output items in one record, or as `request` and `response`."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory; a bare list is read as items."""
        if isinstance(record, list):
            record = {"input": record}
        record = an_object(record)
        request = record.get("request") if isinstance(record.get("request"), dict) else record
        response = record.get("response") if isinstance(record.get("response"), dict) else record
        draft = Draft()
        messages = exchange(request, response, draft)
        if not messages:
            raise RecordError("no_messages", "neither 'input' nor 'output' holds an item")
        top = dict(record)
        for part in (request, response):
            if part is not record:
                top.update({key: value for key, value in part.items() if key not in KNOWN and key not in top})
        offered = tools_of(a_list(request.get("tools") or response.get("tools"), "tools"))
        return (transcript(messages, draft, top, tools=offered, known=KNOWN, drop=self.drop_fields),)


def exchange(request: dict[str, Any], response: dict[str, Any], draft: Draft) -> list[dict[str, Any]]:
    """The messages of a request and its response; the usage goes to the last turn of the agent."""
    messages: list[dict[str, Any]] = []
    instructions = request.get("instructions") or response.get("instructions")
    if instructions:
        messages.append({"role": "system", "content": instructions})
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else a_list(given, "input")
    messages.extend(messages_of([*items, *a_list(response.get("output"), "output")], draft))
    if isinstance(response.get("usage"), dict):
        last = next((turn for turn in reversed(messages) if turn.get("role") == "assistant"), None)
        if last is not None:
            last["usage"] = response["usage"]
    return messages
