"""ATIF 1.6 to 1.8 (Agent Trajectory Interchange Format): `{"schema_version": "ATIF-v1.x", "agent", "steps"}`.

Ours follows its step semantics, so the reading is one to one. A blank agent step that only observes is the
environment speaking. Rewards stand outside of ATIF; a `verifier_result` beside the trajectory is read.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from schemas.errors import RecordError
from schemas.rows import TokenSpan
from schemas.trajectory import Part, Policy, Step, Subagent, ToolCall, ToolResult, Usage
from schemas.vocabulary import PairedBy, PartType, Source
from tasks.normalize.base import Importer
from tasks.normalize.content import media, parts_of
from tasks.normalize.decoder.found import compact, from_value
from tasks.normalize.draft import SCORE, Draft, pair
from tasks.normalize.known import lose_unknown
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_dict, token_span
from tasks.normalize.usage import whole

_VERSION = re.compile(r"ATIF-v1\.[678](\.\d+)?")
_STEP = frozenset(
    [
        "step_id",
        "timestamp",
        "source",
        "message",
        "model_name",
        "reasoning_effort",
        "reasoning_content",
        "tool_calls",
        "observation",
        "metrics",
        "llm_call_count",
        "is_copied_context",
        "extra",
    ]
)
_TOP = frozenset(
    [
        "schema_version",
        "session_id",
        "trajectory_id",
        "agent",
        "steps",
        "notes",
        "final_metrics",
        "continued_trajectory_ref",
        "extra",
        "subagent_trajectories",
        "verifier_result",
    ]
)
_METRICS = frozenset(
    [
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "cost_usd",
        "cost",
        "prompt_token_ids",
        "completion_token_ids",
        "logprobs",
    ]
)


class Atif(Importer, frozen=True, kw_only=True):
    """Reads ATIF trajectories, each with its embedded subagent trajectories."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory, and one for each subagent trajectory within it."""
        if not isinstance(record, dict):
            raise RecordError("not_an_object", f"the record is {type(record).__name__}")
        version = record.get("schema_version")
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise RecordError(
                "unknown_version", f"schema_version is {str(version)[:80]!r}; known are ATIF-v1.6 to v1.8"
            )
        readings = [self._one(record)]
        within = record.get("subagent_trajectories")
        if isinstance(within, list):
            for child in within:
                readings.extend(self.read(child))
        return readings

    def _one(self, record: dict[str, Any]) -> Reading:
        steps, agent = record.get("steps"), record.get("agent")
        if not isinstance(steps, list):
            raise RecordError("no_messages", "no list 'steps'")
        agent = a_dict(agent)
        draft = Draft()
        offered = agent.get("tool_definitions")
        tools = draft.tools(offered) if offered else None
        spans: list[TokenSpan] = []
        links: list[Subagent] = []
        for index, step in enumerate(steps):
            _step(step, index, draft, tools, spans, links)
        policy = Policy(
            model=_text(agent, "model_name"), harness=_text(agent, "name"), harness_version=_text(agent, "version")
        )
        draft.extra = {
            key: record[key]
            for key in ("schema_version", "session_id", "notes", "final_metrics", "continued_trajectory_ref", "extra")
            if record.get(key) is not None
        }
        rest = {key: value for key, value in agent.items() if key not in ("name", "version", "model_name") and value}
        rest.pop("tool_definitions", None)
        if rest:
            draft.extra["agent"] = rest
        verdict = record.get("verifier_result")
        rewards = verdict.get("rewards") if isinstance(verdict, dict) else None
        lose_unknown(draft, verdict, "rewards", "verifier_result")
        outcome = draft.outcome(a_dict(rewards), score=_first(rewards))
        if isinstance(rewards, dict) and rewards:
            outcome = msgspec.structs.replace(outcome, raw_json=compact(rewards))
        key = _text(record, "trajectory_id") or _text(record, "session_id")
        made = draft.finish(record, known=_TOP, drop=self.drop_fields, outcome=outcome, policy=policy, source_id=key)
        return Reading(msgspec.structs.replace(made, subagents=tuple(links)), tuple(spans))


def _first(rewards: Any) -> str | None:
    if not isinstance(rewards, dict):
        return None
    return next((key for key in (*SCORE, *rewards) if isinstance(rewards.get(key), int | float)), None)


def _step(
    step: Any, index: int, draft: Draft, tools: int | None, spans: list[TokenSpan], links: list[Subagent]
) -> None:
    if not isinstance(step, dict):
        raise RecordError("wrong_type", f"step {index + 1} is {type(step).__name__}, not an object")
    draft.lose_rest(step, _STEP, "steps[]")
    source = step.get("source")
    if source not in ("system", "user", "agent"):
        raise RecordError("unknown_role", f"step {index + 1} has the source {str(source)[:80]!r}")
    content = _content(step.get("message"), draft, "steps[].message")
    calls = draft.calls(tuple(_call(item, draft) for item in _list(step, "tool_calls")))
    results = _results(step.get("observation"), index, draft, links, calls)
    reasoning = _text(step, "reasoning_content")
    metrics = step.get("metrics")
    extra = {key: step[key] for key in ("reasoning_effort", "llm_call_count", "extra") if step.get(key) is not None}
    # An observation without a word or a call of the agent is the environment's own step.
    blank = source == "agent" and results and not calls and reasoning is None and not any(p.text for p in content)
    if reasoning is not None:
        draft.thinking = True
    usage = None
    if isinstance(metrics, dict):
        draft.lose_rest(metrics, _METRICS, "steps[].metrics")
        usage = _usage(metrics)
        span = _span(metrics, len(draft.steps), _text(step, "model_name"))
        if span is not None:
            spans.append(span)
        else:
            draft.lost.update(
                f"steps[].metrics.{name}" for name in ("prompt_token_ids", "logprobs") if metrics.get(name)
            )
    draft.steps.append(
        Step(
            source=Source.ENVIRONMENT if blank else Source(source),
            content=() if blank else content,
            reasoning=reasoning,
            tool_calls=calls,
            results=pair(calls, results) if calls else tuple(results),
            tools=tools if source == "agent" and not blank else None,
            timestamp=_text(step, "timestamp"),
            model=_text(step, "model_name"),
            usage=usage,
            copied_context=step.get("is_copied_context") is True,
            source_inferred=bool(blank),
            extra_json=compact(extra) if extra else None,
        )
    )


def _content(value: Any, draft: Draft, where: str) -> tuple[Part, ...]:
    if not isinstance(value, list):
        return parts_of(value, draft, where)
    parts: list[Part] = []
    for item in value:
        source = item.get("source") if isinstance(item, dict) else None
        if isinstance(source, dict) and isinstance(source.get("path"), str) and item.get("type") in ("image", "audio"):
            lose_unknown(draft, item, "type text source{path media_type}", f"{where}[]")
            parts.append(media(PartType(item["type"]), source["path"], _text(source, "media_type")))
        else:
            parts.extend(parts_of([item], draft, where))
    return tuple(parts)


def _call(item: Any, draft: Draft) -> Any:
    if not isinstance(item, dict) or not isinstance(item.get("function_name"), str):
        raise RecordError("call_without_name", "a tool call names no function")
    draft.lose_rest(item, {"tool_call_id", "function_name", "arguments"}, "steps[].tool_calls[]")
    return from_value(item["function_name"], item.get("arguments"), _text(item, "tool_call_id"))


def _results(
    observation: Any, index: int, draft: Draft, links: list[Subagent], calls: tuple[ToolCall, ...]
) -> list[ToolResult]:
    if observation is None:
        return []
    if not isinstance(observation, dict):
        raise RecordError("wrong_type", f"the observation of step {index + 1} is {type(observation).__name__}")
    draft.lose_rest(observation, {"results"}, "steps[].observation")
    results: list[ToolResult] = []
    for item in _list(observation, "results"):
        if not isinstance(item, dict):
            raise RecordError("wrong_type", f"a result of step {index + 1} is {type(item).__name__}")
        draft.lose_rest(item, {"source_call_id", "content", "subagent_trajectory_ref"}, "steps[].observation.results[]")
        key = _text(item, "source_call_id")
        own = next((call.id for call in calls if call.source_id == key), None)
        for link in _list(item, "subagent_trajectory_ref"):
            lose_unknown(draft, link, "trajectory_id session_id", "subagent_trajectory_ref")
            target = link.get("trajectory_id") or link.get("session_id") if isinstance(link, dict) else None
            if isinstance(target, str):
                links.append(Subagent(step=index, trajectory_id=target, call_id=own))
        results.append(
            ToolResult(
                source_call_id=key,
                content=_content(item.get("content"), draft, "steps[].observation.results[].content"),
                paired_by=PairedBy.NONE,
            )
        )
    return results


def _usage(metrics: dict[str, Any]) -> Usage | None:
    usage = Usage(
        prompt_tokens=_int(metrics, "prompt_tokens"),
        completion_tokens=_int(metrics, "completion_tokens"),
        cached_tokens=_int(metrics, "cached_tokens"),
        cost_usd=_float(metrics, "cost_usd") if metrics.get("cost_usd") is not None else _float(metrics, "cost"),
    )
    return None if usage == Usage() else usage


def _span(metrics: dict[str, Any], step: int, model: str | None) -> TokenSpan | None:
    ids = metrics.get("prompt_token_ids"), metrics.get("completion_token_ids")
    span = token_span(*ids, logprobs=metrics.get("logprobs"), model=model)
    return None if span is None else msgspec.structs.replace(span, step=step)


def _list(item: dict[str, Any], key: str) -> list[Any]:
    value = item.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RecordError("wrong_type", f"'{key}' is {type(value).__name__}, not a list")
    return value


def _text(item: dict[str, Any], key: str) -> str | None:
    value = item.get(key)
    return value if isinstance(value, str) else None


def _int(item: dict[str, Any], key: str) -> int | None:
    value = item.get(key)
    return whole(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _float(item: dict[str, Any], key: str) -> float | None:
    value = item.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
