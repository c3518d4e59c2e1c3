"""A trajectory as token rows: the sampled ids where they exist and chain, else the chat rendered and tokenised.

Loss falls on the policy's tokens only, the turn's stop token included; a turn that was cut by the token limit
ends without one, so that the model does not learn to stop there. Step labels weigh turns and single calls.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from schemas.errors import RecordError
from schemas.rows import StepLabel, TokenSpan
from schemas.trajectory import Trajectory
from schemas.vocabulary import Source
from tasks.emit.chain import Branch, branches_of, covers
from tasks.emit.messages import Chat, call_weights, step_weights, to_chat
from tasks.emit.rows import RETOKENIZED, SAMPLED, Segment, TokenRow, segments_of
from tasks.emit.tokenizer import ChatTokenizer, Encoded
from tasks.pages import with_pages
from warehouse.lake import Lake


class Draft(NamedTuple):
    """What a row is made from: the trajectory, its labels, its recorded calls, its chat (None: refused)."""

    trajectory: Trajectory
    labels: Sequence[StepLabel]
    spans: Sequence[TokenSpan]
    chat: Chat | None
    refusal: str = ""


class Tokenised(NamedTuple):
    """The token rows of one trajectory, one a branch, or none and the reason."""

    rows: list[TokenRow]
    source: str
    truncated: list[bool]
    reason: str = "ok"


def draft(trajectory: Trajectory, labels: Sequence[StepLabel], spans: Sequence[TokenSpan], lake: Lake) -> Draft:
    """The draft of one trajectory; its web pages are read from the lake."""
    try:
        return Draft(trajectory, labels, spans, to_chat(with_pages(trajectory, lake)))
    except RecordError as error:
        return Draft(trajectory, labels, spans, None, error.reason)


def tokenise(drafts: Sequence[Draft], tokenizer: ChatTokenizer, *, sampled: bool = True) -> list[Tokenised]:
    """Token rows of each draft, in order. sampled = False tokenises anew even where sampled ids exist."""
    faithful = [sampled and _faithful(each, tokenizer) for each in drafts]
    chats = [each.chat for each, exact in zip(drafts, faithful, strict=True) if not exact and each.chat is not None]
    encoded = iter(tokenizer.encode(chats))
    result = []
    for each, exact in zip(drafts, faithful, strict=True):
        if exact:
            result.append(_from_calls(each))
        elif each.chat is None:
            result.append(Tokenised([], RETOKENIZED, [], each.refusal))
        else:
            made = next(encoded)
            if isinstance(made, RecordError):
                result.append(Tokenised([], RETOKENIZED, [], made.reason))
            else:
                result.append(_from_text(each, each.chat, made, tokenizer))
    return result


def _faithful(each: Draft, tokenizer: ChatTokenizer) -> bool:
    """Whether every turn of the policy has its sampled ids, and they are ids of this tokenizer."""
    spoken = [
        index
        for index, step in enumerate(each.trajectory.steps)
        if step.source is Source.AGENT and not step.copied_context
    ]
    return covers(each.spans, spoken) and all(tokenizer.speaks(span) for span in each.spans)


def _from_calls(each: Draft) -> Tokenised:
    weights = step_weights(each.trajectory, each.labels)
    # Which of the sampled tokens belong to which call is not recorded: the lowest weight of a turn's calls holds
    # for the whole turn.
    calls = call_weights(each.trajectory, each.labels)
    for index, step in enumerate(each.trajectory.steps):
        for call in step.tool_calls:
            if call.id in calls and index in weights:
                weights[index] = min(weights[index], calls[call.id])
    branches = branches_of(each.spans)
    return Tokenised(
        [_branch_row(branch, weights) for branch in branches], SAMPLED, [branch.truncated for branch in branches]
    )


def _branch_row(branch: Branch, weights: dict[int, float]) -> TokenRow:
    row = np.zeros(len(branch.ids), dtype=np.float32)
    said = []
    for call in branch.calls:
        row[call.start : call.end] = weights.get(call.step, 0.0)
        said.append(Segment(call.start, call.end, "agent", call.step, call.span_id))
    return TokenRow(branch.ids, row, segments_of(len(branch.ids), said), branch.logprobs)


def _from_text(each: Draft, chat: Chat, encoded: Encoded, tokenizer: ChatTokenizer) -> Tokenised:
    trajectory = each.trajectory
    weights = step_weights(trajectory, each.labels)
    calls = call_weights(trajectory, each.labels)
    last = max(weights, default=-1)
    row = np.zeros(len(encoded.ids), dtype=np.float32)
    said = []
    for span in encoded.spans:
        index = chat.steps[span.message]
        step = trajectory.steps[index]
        row[span.start : span.end] = weights[index]
        said.append(Segment(span.start, span.end, "agent", index))
        if weights[index] > 0 and any(call.id in calls for call in step.tool_calls):
            ranges = tokenizer.template.call_ranges(chat, span.message)
            for call, edges in zip(step.tool_calls, ranges, strict=True):
                start, end = tokenizer.char_to_token(encoded, edges)
                low, high = max(start, span.start), min(end, span.end - span.stopped)
                row[low:high] = np.minimum(row[low:high], calls.get(call.id, 1.0))
        if span.stopped and (step.finish_reason == "length" or (trajectory.truncated and index == last)):
            row[span.end - 1] = 0.0
    truncated = trajectory.truncated or any(step.finish_reason == "length" for step in trajectory.steps)
    return Tokenised([TokenRow(encoded.ids, row, segments_of(len(encoded.ids), said))], RETOKENIZED, [truncated])
