"""OpenAI chat JSON lines: messages with argument text, tools, and `weight` 0 on the turns that labels mask."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import pyarrow as pa

from schemas.rows import TokenSpan
from schemas.trajectory import Trajectory
from tasks.emit.format import openai_chat
from tasks.emit.jsonl import JSON_LIST, JsonlExporter
from tasks.emit.media import Form


class OpenaiChat(JsonlExporter, frozen=True, kw_only=True):
    """One line per kept trajectory.

    minimal: only `messages` and `tools`, as fine-tuning services want them. media: "data" puts images and audio into
    the rows as data URLs, as those services want them; "file" writes files beside the shards and names them.
    """

    typed: ClassVar[Mapping[str, pa.DataType]] = {"messages": JSON_LIST, "tools": JSON_LIST}
    weighs: ClassVar[bool] = True
    about: ClassVar[str] = (
        "Conversations as OpenAI chat messages: `arguments` are JSON text, `weight` 0 marks turns without loss."
    )

    minimal: bool = False
    media: Literal["data", "file"] = "data"

    @property
    def media_form(self) -> Form:
        """As the option says."""
        return self.media

    def record(self, trajectory: Trajectory, spans: Sequence[TokenSpan] = ()) -> dict[str, Any]:
        """The record, weights as the integers 0 and 1."""
        record = openai_chat.write(trajectory)
        for message in record["messages"]:
            if "weight" in message:
                message["weight"] = int(message["weight"] > 0)
        return {key: record[key] for key in ("messages", "tools") if key in record} if self.minimal else record
