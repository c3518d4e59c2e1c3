"""NeMo Gym rollouts: `{"responses_create_params": {"input", "tools"}, "response": {"output"}, "reward", …}`."""

from collections.abc import Sequence
from typing import Any

from schemas.errors import RecordError
from tasks.normalize.base import Importer
from tasks.normalize.decoder.response_items import tools_of
from tasks.normalize.draft import Draft
from tasks.normalize.importer.openai_responses import KNOWN, exchange
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_dict, a_list, an_object, token_span, transcript


class NemoGym(Importer, frozen=True, kw_only=True):
    """Reads rollouts with their reward and, where the policy server recorded them, token ids and log-probabilities."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        record = an_object(record)
        request, response = record.get("responses_create_params"), record.get("response")
        if not isinstance(request, dict):
            raise RecordError("no_messages", "no object 'responses_create_params'")
        response = a_dict(response)
        draft = Draft()
        messages = exchange(request, response, draft)
        draft.extra.update(draft.rest(request, KNOWN | {"model"}, "responses_create_params."))
        draft.extra.update(draft.rest(response, KNOWN | {"id", "object", "model"}, "response."))
        top = {**record, "model": response.get("model") or request.get("model")}
        spans = []
        for index, message in enumerate(messages):
            prompt, sampled = message.pop("prompt_token_ids", None), message.pop("generation_token_ids", None)
            span = token_span(prompt, sampled, message.pop("generation_log_probs", None), model=top["model"])
            if span is not None:
                spans.append((index, span))
        return (
            transcript(
                messages,
                draft,
                top,
                tools=tools_of(a_list(request.get("tools"), "tools")),
                known={"responses_create_params", "response"},
                drop=self.drop_fields,
                spans=spans,
            ),
        )
