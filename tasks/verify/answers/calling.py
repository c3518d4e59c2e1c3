"""The function calls of an answer, for verifiers that look at calls."""

from typing import Any

import msgspec

from schemas.ids import canonical_json
from schemas.trajectory import Trajectory
from schemas.vocabulary import ArgumentState, Source, VerdictKind
from tasks.verify.base import Judgement, last_message, unparsable
from tasks.verify.workers.worker import WorkerDied, WorkerFailed, WorkerTimeout, pool


def calls_made(trajectory: Trajectory) -> str:
    """The calls that the agent made, in order, as JSON text; without any, what it said last.

    The raw text of the first call whose arguments are no JSON, since nothing that follows can be relied on.
    """
    calls = []
    for step in trajectory.steps:
        if step.source is Source.AGENT and not step.copied_context:
            for call in step.tool_calls:
                if call.state is not ArgumentState.PARSED or call.arguments_json is None:
                    return call.arguments
                calls.append({"name": call.name, "arguments": msgspec.json.decode(call.arguments_json)})
    return canonical_json(calls) if calls else last_message(trajectory)


def read_calls(text: str, timeout_s: float) -> list[dict[str, Any]] | Judgement | None:
    """The calls in a text, None for none; a Judgement where the text cannot be read. See tasks.verify.workers.calls."""
    try:
        found: list[dict[str, Any]] | None = pool("tasks.verify.workers.calls:parse").call(text, timeout_s)
    except WorkerTimeout:
        return Judgement(VerdictKind.TIMEOUT, 0.0, "parser_timeout")
    except (WorkerDied, WorkerFailed) as error:
        # The helper works for every other answer; what ends it is this text.
        return unparsable("parser_failed", {"detail": str(error)})
    return found
