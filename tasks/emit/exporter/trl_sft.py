"""SFT rows for TRL's SFTTrainer: messages and tools, loaded by `datasets.load_dataset(FOLDER)` as they are.

Messages are a list of JSON values, so that `arguments` come back as the objects that chat templates want and two
rows with different tools never lend each other null keys. TRL has no place for a weight per turn: a row whose
labels mask a part of its turns is counted (`unapplied_weights`) or, with `partial = "drop"`, left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import pyarrow as pa

from schemas.errors import RecordError
from schemas.rows import StepLabel
from schemas.trajectory import Trajectory
from schemas.vocabulary import Source
from tasks.context import Context
from tasks.emit import facts
from tasks.emit.base import Exporter, Made
from tasks.emit.messages import json_text, step_weights, to_chat
from tasks.emit.shards import JSON_TEXT
from tasks.operator import Item
from tasks.pages import with_pages

_SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("messages", pa.list_(JSON_TEXT)),
        ("tools", pa.large_string()),
        ("task_id", pa.large_string()),
        ("reward", pa.float64()),
        ("source", pa.large_string()),
        ("model", pa.large_string()),
    ]
)


class TrlSft(Exporter, frozen=True, kw_only=True):
    """One row per kept trajectory.

    partial: what to do with a row of which labels mask some turns and not others, which TRL cannot express:
    "keep" (counted in the manifest) or "drop" (reason `partial_mask`). The `tokens` exporter applies every weight.
    trust_inside, trust_model: whether verdicts reached beside the candidate's code, and a model's opinions, count in
    `reward`.
    """

    schema: ClassVar[pa.Schema] = _SCHEMA
    about: ClassVar[str] = (
        "Conversations for supervised fine-tuning: `messages` (arguments as objects) and `tools` (JSON text). "
        "TRL's SFTTrainer takes the rows as they are."
    )

    partial: Literal["keep", "drop"] = "keep"
    trust_inside: bool = False
    trust_model: bool = False

    def make(self, items: Sequence[Item], ctx: Context) -> Iterator[Made]:
        """Rows in the order of the items."""
        ids = [item.ref for item in items]
        labels = facts.labels_of(ctx, ids)
        verdicts = facts.verdicts_of(ctx, ids)
        for item, trajectory in zip(items, ctx.lake.trajectories(ids), strict=True):
            reward = facts.reward_of(verdicts.get(item.ref, ()), inside=self.trust_inside, model=self.trust_model)
            yield self._row(item, trajectory, labels.get(item.ref, ()), reward, ctx)

    def _row(
        self, item: Item, trajectory: Trajectory, labels: Sequence[StepLabel], reward: float | None, ctx: Context
    ) -> Made:
        weights = step_weights(trajectory, labels)
        if not any(weight > 0 for weight in weights.values()):
            return Made(item, reason="zero_mask")
        partial = any(weight < 1 for weight in weights.values()) or any(label.call_id for label in labels)
        if partial and self.partial == "drop":
            return Made(item, reason="partial_mask")
        try:
            chat = to_chat(with_pages(trajectory, ctx.lake))
        except RecordError as error:
            return Made(item, reason=error.reason)
        row: dict[str, Any] = {
            "id": trajectory.id,
            "messages": [json_text(message) for message in chat.messages],
            "tools": json_text(chat.tools) if chat.tools else None,
            "task_id": trajectory.task_id,
            "reward": reward,
            "source": trajectory.provenance.dataset,
            "model": trajectory.policy.model,
        }
        turns = sum(step.source is Source.AGENT for step in trajectory.steps)
        counts = {"turns": turns, "unapplied_weights": int(partial)}
        return Made(item, (row,), licence=trajectory.provenance.licence or "", facts=counts)
