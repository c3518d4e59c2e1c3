"""Preference rows for TRL's DPOTrainer: prompt, chosen and rejected as message lists.

DPOTrainer knows no mask inside chosen and rejected, so a pair of several turns would train tool results: each
side must be one assistant message, or the pair is left out as `multi_turn`.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from schemas.errors import RecordError
from schemas.rows import Pair
from tasks.context import Context
from tasks.emit.base import Exporter, Made
from tasks.emit.messages import Message, check_json, json_text
from tasks.emit.shards import JSON_TEXT
from tasks.operator import Item, Unit

_SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("prompt", pa.list_(JSON_TEXT)),
        ("chosen", pa.list_(JSON_TEXT)),
        ("rejected", pa.list_(JSON_TEXT)),
        ("tools", pa.large_string()),
        ("task_id", pa.large_string()),
    ]
)


class TrlDpo(Exporter, frozen=True, kw_only=True):
    """One row per preference pair of the pair stage; pairs of another kind are left out as `other_kind`.

    pair_kind: the pairs to take.
    """

    reads: ClassVar[Unit] = "pair"
    schema: ClassVar[pa.Schema] = _SCHEMA
    about: ClassVar[str] = (
        "Preference pairs: `prompt`, `chosen` and `rejected` are message lists, `tools` is JSON text. "
        "TRL's DPOTrainer takes the rows as they are."
    )

    pair_kind: str = "preference"

    def make(self, items: Sequence[Item], ctx: Context) -> Iterator[Made]:
        """Rows in the order of the items."""
        for item, pair in zip(items, ctx.lake.pairs([item.ref for item in items]), strict=True):
            yield self._row(item, pair)

    def _row(self, item: Item, pair: Pair) -> Made:
        if pair.kind != self.pair_kind:
            return Made(item, reason="other_kind")
        try:
            prompt, chosen, rejected = map(trl_messages, (pair.prompt_json, pair.chosen_json, pair.rejected_json))
        except RecordError as error:
            return Made(item, reason=error.reason)
        if not prompt:
            return Made(item, reason="no_prompt")
        if any(len(side) != 1 or side[0].get("role") != "assistant" for side in (chosen, rejected)):
            return Made(item, reason="multi_turn")
        if chosen == rejected:
            return Made(item, reason="no_difference")
        row: dict[str, Any] = {
            "id": pair.id,
            "prompt": list(map(json_text, prompt)),
            "chosen": list(map(json_text, chosen)),
            "rejected": list(map(json_text, rejected)),
            "tools": pair.tools_json if pair.tools_json not in (None, "[]", "null") else None,
            "task_id": pair.task_id,
        }
        return Made(item, (row,))


def trl_messages(text: str) -> list[Message]:
    """Messages from JSON text with arguments as objects, as TRL wants them; argument text is parsed, or refused."""
    messages: list[Message] = json.loads(text)
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function", call)
            if isinstance(function.get("arguments"), str):
                try:
                    function["arguments"] = json.loads(function["arguments"])
                except ValueError as error:
                    raise RecordError("arguments_unparsed", str(error)) from error
    check_json(messages)
    return messages
