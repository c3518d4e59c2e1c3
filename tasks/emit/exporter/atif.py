"""ATIF 1.8 JSON lines: `agent`, `steps` with calls and observations, the outcome beside them as Harbor has it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from schemas.rows import TokenSpan
from schemas.trajectory import Trajectory
from tasks.emit.format import atif
from tasks.emit.jsonl import JSON_LIST, JsonlExporter
from tasks.emit.shards import JSON_TEXT


class Atif(JsonlExporter, frozen=True, kw_only=True):
    """One line per kept trajectory. ATIF has no place for loss weights: rows that have some are counted.

    Token ids and log-probabilities stand in a step's metrics where the step is one recorded model call.
    """

    typed: ClassVar[Mapping[str, pa.DataType]] = {
        "schema_version": pa.string(),
        "trajectory_id": pa.string(),
        "agent": JSON_TEXT,
        "steps": JSON_LIST,
        "verifier_result": JSON_TEXT,
    }
    spanned: ClassVar[bool] = True
    about: ClassVar[str] = "Trajectories in the Agent Trajectory Interchange Format, version 1.8."

    def record(self, trajectory: Trajectory, spans: Sequence[TokenSpan] = ()) -> dict[str, Any]:
        """The record."""
        return atif.write(trajectory, spans)

    def counts(self, trajectory: Trajectory, spans: Sequence[TokenSpan]) -> dict[str, int]:
        """How many recorded model calls the rows hold, and how many have no place in them."""
        held = len(atif.metrics_spans(spans))
        return {"token_spans": held, "token_spans_left_out": len(spans) - held}
