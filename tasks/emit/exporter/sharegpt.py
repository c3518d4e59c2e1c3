"""ShareGPT JSON lines: `conversations` of `from` and `value`, calls as Hermes text or as turns of their own."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import pyarrow as pa

from schemas.rows import TokenSpan
from schemas.trajectory import Trajectory
from tasks.emit.format import sharegpt
from tasks.emit.jsonl import JSON_LIST, JsonlExporter


class Sharegpt(JsonlExporter, frozen=True, kw_only=True):
    """One line per kept trajectory.

    style: "hermes" (call text inside a gpt turn), "function_call" (turns of their own), or "source" for the style
    that the record came in.
    """

    typed: ClassVar[Mapping[str, pa.DataType]] = {
        "conversations": JSON_LIST,
        "system": pa.string(),
        "tools": pa.string(),
    }
    weighs: ClassVar[bool] = True
    about: ClassVar[str] = (
        "Conversations in ShareGPT form: `conversations` of `from` and `value`, `tools` as JSON text."
    )

    style: Literal["source", "hermes", "function_call"] = "source"

    def record(self, trajectory: Trajectory, spans: Sequence[TokenSpan] = ()) -> dict[str, Any]:
        """The record."""
        return sharegpt.write(trajectory, None if self.style == "source" else self.style)
