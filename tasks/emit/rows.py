"""The superset token row: ids, labels, masks, log-probabilities and where every token came from.

TRL takes `input_ids` and `labels` as they stand and ignores the rest; other trainers read `loss_mask`. The rules
that a row must keep are asserted here when it is written and again by `tasks.emit.audit` from the disk.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.errors import FaultError
from tasks.emit.shards import JSON_TEXT
from tasks.emit.tokenizer import Ids

IGNORED = -100

# Where a row's ids come from.
SAMPLED, RETOKENIZED = "sampled", "retokenized"

SEGMENT = pa.struct(
    [
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("role", pa.large_string()),
        ("step", pa.int32()),
        ("call_id", pa.large_string()),
    ]
)

SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("branch_id", pa.int32()),
        ("token_source", pa.large_string()),
        ("input_ids", pa.list_(pa.int32())),
        ("attention_mask", pa.list_(pa.int8())),
        ("labels", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int8())),
        ("loss_weights", pa.list_(pa.float32())),
        ("logprobs", pa.list_(pa.float32())),
        ("segments", pa.list_(SEGMENT)),
        ("messages", pa.list_(JSON_TEXT)),
        ("tools", pa.large_string()),
        ("reward", pa.float64()),
        ("truncated", pa.bool_()),
        ("task_id", pa.large_string()),
        ("meta", pa.large_string()),
    ]
)


class Segment(NamedTuple):
    """A run of tokens: role is "agent" for what the policy said in `step`, "context" for everything else.

    `call_id` is the id of the recorded model call (token span), where there is one.
    """

    start: int
    end: int
    role: str
    step: int | None = None
    call_id: str | None = None


class TokenRow(NamedTuple):
    """What `columns` turns into a row. `weights` is the loss weight of every token, 0 off the policy's tokens;
    `logprobs` has NaN where a sampled token's is unknown."""

    ids: Ids
    weights: NDArray[np.float32]
    segments: list[Segment]
    logprobs: NDArray[np.float32] | None = None


def segments_of(length: int, said: Sequence[Segment]) -> list[Segment]:
    """`said` with the context between them, covering every token once."""
    result, at = [], 0
    for segment in said:
        if segment.start > at:
            result.append(Segment(at, segment.start, "context"))
        result.append(segment)
        at = segment.end
    return [*result, Segment(at, length, "context")] if at < length else result


def columns(row: TokenRow) -> dict[str, Any]:
    """The token columns of a row; FaultError when they break a rule of the format."""
    mask = (row.weights > 0).astype(np.int8)
    logprobs = None if row.logprobs is None else np.where(mask == 1, row.logprobs, np.float32(0))
    if logprobs is not None and np.isnan(logprobs).any():
        # One trained token without a log-probability makes the whole column useless for importance ratios.
        logprobs = None
    labels = np.where(mask == 1, row.ids, IGNORED).astype(np.int32)
    graded = bool(np.any((row.weights > 0) & (row.weights != 1)))
    made = {
        "input_ids": row.ids,
        "attention_mask": np.ones(len(row.ids), dtype=np.int8),
        "labels": labels,
        "loss_mask": mask,
        "loss_weights": row.weights if graded else None,
        "logprobs": logprobs,
        "segments": [segment._asdict() for segment in row.segments],
    }
    broken = faults(made)
    if broken:
        raise FaultError(f"a token row breaks its rules: {'; '.join(broken)}")
    return made


def faults(row: dict[str, Any]) -> list[str]:
    """The rules that a row's token columns break; empty for a sound row."""
    ids, labels, mask = (np.asarray(row[name]) for name in ("input_ids", "labels", "loss_mask"))
    found = []
    if not len(ids) == len(labels) == len(mask) == len(row["attention_mask"]):
        return ["columns differ in length"]
    if not mask.any():
        found.append("zero mask")
    if not np.array_equal(labels, np.where(mask == 1, ids, IGNORED)):
        found.append("labels are not the ids under the mask")
    for name in ("logprobs", "loss_weights"):
        values = row[name]
        if values is not None and len(values) != len(ids):
            found.append(f"{name} differ in length")
        elif values is not None and np.any(np.asarray(values)[mask == 0] != 0):
            found.append(f"{name} are not 0 off the mask")
    at = 0
    for segment in row["segments"]:
        if segment["start"] != at or segment["end"] <= at:
            found.append(f"segments do not follow each other at token {at}")
            break
        at = segment["end"]
    if at != len(ids):
        found.append("segments do not cover the row")
    elif np.any(mask[~_said(row["segments"], len(ids))] == 1):
        found.append("a token that the policy did not say is trained")
    return found


def _said(segments: Sequence[dict[str, Any]], length: int) -> NDArray[np.bool_]:
    said = np.zeros(length, dtype=bool)
    for segment in segments:
        if segment["role"] == "agent":
            said[segment["start"] : segment["end"]] = True
    return said
