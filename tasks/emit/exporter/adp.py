"""Legacy ADP JSON lines: `content` items tagged by `class_`, `details`."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from schemas.rows import TokenSpan
from schemas.trajectory import Trajectory
from tasks.emit.format import adp
from tasks.emit.jsonl import JSON_LIST, JsonlExporter
from tasks.emit.shards import JSON_TEXT


class Adp(JsonlExporter, frozen=True, kw_only=True):
    """One line per kept trajectory. ADP has no place for loss weights: rows that have some are counted."""

    typed: ClassVar[Mapping[str, pa.DataType]] = {
        "id": pa.string(),
        "content": JSON_LIST,
        "details": JSON_TEXT,
        "available_apis": JSON_LIST,
    }
    about: ClassVar[str] = "Trajectories in the legacy schema of the Agent Data Protocol."

    def record(self, trajectory: Trajectory, spans: Sequence[TokenSpan] = ()) -> dict[str, Any]:
        """The record."""
        return adp.write(trajectory)
