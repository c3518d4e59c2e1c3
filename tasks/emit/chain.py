"""Sampled calls as training samples: what was sampled, token by token, without tokenising anything again.

Call k+1 joins the branch whose ids (prompt and completion so far) its own prompt begins with; else it starts a
new branch, as when a template drops earlier thinking or a re-rendered turn tokenises differently.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.rows import TokenSpan
from tasks.emit.tokenizer import Ids


class Call(NamedTuple):
    """One sampled completion inside a branch: token positions [start, end), its step and its span's id."""

    start: int
    end: int
    step: int
    span_id: str


class Branch(NamedTuple):
    """One chain of calls. `logprobs` are 0.0 off the completions, NaN in completions that lack them."""

    ids: Ids
    calls: list[Call]
    logprobs: NDArray[np.float32]
    truncated: bool


def branches_of(spans: Sequence[TokenSpan]) -> list[Branch]:
    """The branches of one trajectory's calls, in the order in which they start; spans without ids are skipped."""
    chains: list[list[TokenSpan]] = []
    ids: list[tuple[int, ...]] = []
    for span in sorted(spans, key=lambda span: (span.step, span.id)):
        if not span.completion_token_ids or not span.prompt_token_ids:
            continue
        fits = [i for i, known in enumerate(ids) if span.prompt_token_ids[: len(known)] == known]
        # The longest fitting branch: a call continues the latest state that it saw.
        home = max(fits, key=lambda i: len(ids[i]), default=None)
        whole = span.prompt_token_ids + span.completion_token_ids
        if home is None:
            chains.append([span])
            ids.append(whole)
        else:
            chains[home].append(span)
            ids[home] = whole
    return [_branch(chain, whole) for chain, whole in zip(chains, ids, strict=True)]


def _branch(chain: Sequence[TokenSpan], whole: tuple[int, ...]) -> Branch:
    calls = [
        Call(len(s.prompt_token_ids), len(s.prompt_token_ids) + len(s.completion_token_ids), s.step, s.id)
        for s in chain
    ]
    logprobs = np.zeros(len(whole), dtype=np.float32)
    for span, call in zip(chain, calls, strict=True):
        given = span.completion_logprobs
        whole_call = given is not None and len(given) == call.end - call.start
        logprobs[call.start : call.end] = given if whole_call else np.nan
    cut = any(span.finish_reason == "length" for span in chain)
    return Branch(np.array(whole, dtype=np.int32), calls, logprobs, cut)


def covers(spans: Sequence[TokenSpan], agent_steps: Sequence[int]) -> bool:
    """Whether every agent step has its sampled ids, so that the row can be built from them alone."""
    held = {span.step for span in spans if span.completion_token_ids and span.prompt_token_ids}
    return bool(agent_steps) and set(agent_steps) <= held
