"""Exporters whose format is JSON lines: a pure writer per format, and columns declared from what was written.

Records keep the fields of their source, so the columns are known only when the last row is written. The card then
declares each: one type for every shard, JSON where rows differ in type, so that nothing is inferred on loading.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from schemas.errors import RecordError
from schemas.rows import StepLabel, TokenSpan
from schemas.trajectory import Trajectory
from tasks.context import Context
from tasks.emit import facts
from tasks.emit.base import Exporter, Made
from tasks.emit.media import Form, placed
from tasks.emit.messages import call_weights, check_json, step_weights
from tasks.emit.shards import JSON_TEXT, Container
from tasks.operator import Item
from warehouse.blobs import Blobs

JSON_LIST = pa.list_(JSON_TEXT)


class JsonlExporter(Exporter, frozen=True, kw_only=True):
    """One record per kept trajectory, in JSON lines.

    `typed` declares the columns of the format itself; other columns get the one type that all their values have.
    `weighs`: whether the format has a place for a weight per turn; `spanned`: whether it has one for token ids.
    """

    container: ClassVar[Container] = "jsonl"
    schema: ClassVar[pa.Schema | None] = None
    typed: ClassVar[Mapping[str, pa.DataType]] = {}
    weighs: ClassVar[bool] = False
    spanned: ClassVar[bool] = False

    @property
    def media_form(self) -> Form:
        """Where the rows hold media: in files beside the shards, or as data URLs."""
        return "file"

    def record(self, trajectory: Trajectory, spans: Sequence[TokenSpan] = ()) -> dict[str, Any]:
        """The record of one trajectory, whose media have URIs that rows can name; `spans` where the format is
        `spanned`. RecordError with a reason where the format has no word for something.
        """
        raise NotImplementedError(f"{type(self).__name__} must define record()")

    def make(self, items: Sequence[Item], ctx: Context) -> Iterator[Made]:
        """Records in the order of the items."""
        ids = [item.ref for item in items]
        labels = facts.labels_of(ctx, ids)
        spans = ctx.lake.token_spans(ids) if self.spanned else {}
        blobs = Blobs(ctx.lake)
        for item, trajectory in zip(items, ctx.lake.trajectories(ids), strict=True):
            yield self._made(item, trajectory, labels.get(item.ref, ()), spans.get(item.ref, ()), blobs)

    def counts(self, trajectory: Trajectory, spans: Sequence[TokenSpan]) -> dict[str, int]:
        """Counts of this format for the manifest."""
        return {}

    def _made(
        self,
        item: Item,
        trajectory: Trajectory,
        labels: Sequence[StepLabel],
        spans: Sequence[TokenSpan],
        blobs: Blobs,
    ) -> Made:
        weights = step_weights(trajectory, labels)
        if self.weighs and not any(weight > 0 for weight in weights.values()):
            return Made(item, reason="zero_mask")
        weighted = apply_weights(trajectory, labels) if self.weighs else trajectory
        try:
            there = placed(weighted, blobs, self.media_form)
            record = self.record(there.trajectory, spans)
            check_json(record)
        except RecordError as error:
            return Made(item, reason=error.reason)
        masked = any(weight < 1 for weight in weights.values()) or any(label.call_id for label in labels)
        counts = {"masked_rows" if self.weighs else "unapplied_weights": int(masked)} | self.counts(trajectory, spans)
        licence = trajectory.provenance.licence or ""
        return Made(item, (record,), licence=licence, facts=counts, media=there.files)


def apply_weights(trajectory: Trajectory, labels: Sequence[StepLabel]) -> Trajectory:
    """The trajectory with its labels as step weights, 0 or 1, where they mask; a masked call masks its turn."""
    weights = step_weights(trajectory, labels)
    calls = call_weights(trajectory, labels)
    steps = []
    for index, step in enumerate(trajectory.steps):
        if index in weights:
            weight = min([weights[index], *(calls[call.id] for call in step.tool_calls if call.id in calls)])
            if weight < 1 or step.weight is not None:
                step = msgspec.structs.replace(step, weight=float(weight > 0))  # noqa: PLW2901
        steps.append(step)
    return msgspec.structs.replace(trajectory, steps=tuple(steps))
