"""A trajectory as ATIF 1.8: `{"schema_version", "agent", "steps"}`, the outcome beside it as Harbor has it.

The environment's own steps become blank agent steps that only observe, because ATIF has no environment source.
Raises RecordError for a call whose arguments never parsed.
"""

import math
from collections.abc import Sequence
from typing import Any

from schemas.errors import RecordError
from schemas.rows import TokenSpan
from schemas.trajectory import Part, Step, ToolCall, Trajectory, Usage
from schemas.vocabulary import PartType, Source
from tasks.emit.format.pieces import argument_object, extra_of, outcome_fields, tools_of

VERSION = "ATIF-v1.8"
_KEPT = ("session_id", "notes", "final_metrics", "continued_trajectory_ref", "extra")


def write(trajectory: Trajectory, spans: Sequence[TokenSpan] = ()) -> dict[str, Any]:
    """The record; `spans` are the trajectory's recorded model calls, see `metrics_spans`."""
    by_step = metrics_spans(spans)
    extra = extra_of(trajectory)
    agent: dict[str, Any] = {
        "name": trajectory.policy.harness or "unknown",
        "version": trajectory.policy.harness_version or "unknown",
    }
    if trajectory.policy.model is not None:
        agent["model_name"] = trajectory.policy.model
    tools = tools_of(trajectory)
    if tools:
        agent["tool_definitions"] = tools
    rest = extra.get("agent")
    record: dict[str, Any] = {
        "schema_version": extra.get("schema_version") or VERSION,
        "trajectory_id": trajectory.source_id or trajectory.id,
        "agent": agent | rest if isinstance(rest, dict) else agent,
        "steps": [_step(step, index, trajectory, by_step.get(index)) for index, step in enumerate(trajectory.steps)],
    }
    record.update({key: extra[key] for key in _KEPT if key in extra})
    outcome = outcome_fields(trajectory)
    if outcome:
        record["verifier_result"] = {"rewards": outcome}
    return record


def metrics_spans(spans: Sequence[TokenSpan]) -> dict[int, TokenSpan]:
    """The span of every step that is one model call: metrics have room for one; two joined are no call."""
    by_step: dict[int, list[TokenSpan]] = {}
    for span in spans:
        by_step.setdefault(span.step, []).append(span)
    return {step: found[0] for step, found in by_step.items() if len(found) == 1}


def _step(step: Step, index: int, trajectory: Trajectory, span: TokenSpan | None) -> dict[str, Any]:
    extra = extra_of(step)
    environment = step.source is Source.ENVIRONMENT
    made: dict[str, Any] = {
        "step_id": index + 1,
        "source": "agent" if environment else step.source.value,
        "message": "" if environment else _content(step.content),
    }
    optional = {
        "timestamp": step.timestamp,
        "model_name": step.model,
        "reasoning_content": step.reasoning,
        "reasoning_effort": extra.pop("reasoning_effort", None),
        "llm_call_count": extra.pop("llm_call_count", None),
        "metrics": _metrics(step, span),
        "is_copied_context": step.copied_context or None,
    }
    made.update({key: value for key, value in optional.items() if value is not None})
    if step.tool_calls:
        made["tool_calls"] = [_call(call) for call in step.tool_calls]
    results = _results(step, index, trajectory)
    if environment and step.content:
        results = [{"content": _content(step.content)}, *results]
    if results:
        made["observation"] = {"results": results}
    given = extra.pop("extra", None)
    rest = {**(given if isinstance(given, dict) else {}), **extra}
    if rest:
        made["extra"] = rest
    return made


def _content(parts: tuple[Part, ...]) -> Any:
    if len(parts) <= 1 and all(part.type is PartType.TEXT for part in parts):
        return parts[0].text or "" if parts else ""
    return [_part(part) for part in parts]


def _part(part: Part) -> dict[str, Any]:
    if part.type is PartType.TEXT:
        return {"type": "text", "text": part.text or ""}
    if part.type not in (PartType.IMAGE, PartType.AUDIO):
        return {"type": "text", "text": part.uri or f"sha256:{part.sha256}"}
    source = {"media_type": part.media_type, "path": part.uri or f"sha256:{part.sha256}"}
    return {"type": part.type.value, "source": {key: value for key, value in source.items() if value is not None}}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = argument_object(call)
    if arguments is None:
        raise RecordError(f"arguments_{call.state.value}", f"call {call.id} of {call.name}")
    return {"tool_call_id": call.source_id or call.id, "function_name": call.name, "arguments": arguments}


def _results(step: Step, index: int, trajectory: Trajectory) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    by_id = {call.id: call for call in step.tool_calls}
    for result in step.results:
        own = by_id.get(result.call_id or "")
        item: dict[str, Any] = {}
        key = result.source_call_id or (own and (own.source_id or own.id))
        if key:
            item["source_call_id"] = key
        item["content"] = _content(result.content)
        links = [
            {"trajectory_id": link.trajectory_id}
            for link in trajectory.subagents
            if link.step == index and (link.call_id == result.call_id if link.call_id else result is step.results[-1])
        ]
        if links:
            item["subagent_trajectory_ref"] = links
        made.append(item)
    return made


def _metrics(step: Step, span: TokenSpan | None) -> dict[str, Any] | None:
    usage = step.usage or Usage()
    values: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "cost_usd": usage.cost_usd,
    }
    if span is not None:
        logprobs = span.completion_logprobs
        values["prompt_token_ids"] = list(span.prompt_token_ids) or None
        values["completion_token_ids"] = list(span.completion_token_ids)
        # JSON has no infinity, and one missing value makes the others useless for importance ratios.
        if logprobs and all(map(math.isfinite, logprobs)):
            values["logprobs"] = list(logprobs)
    return {key: value for key, value in values.items() if value is not None} or None
