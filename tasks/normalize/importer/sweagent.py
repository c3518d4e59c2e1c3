"""SWE-agent `.traj`: `{"history": [messages], "trajectory": [steps], "info": {…}, "environment"}`.

The history is what the model saw and said; a step of `trajectory` adds the execution time. Where a file has no
history, the steps are read. The outcome stands in a report outside of the file; what `info` says is kept.
"""

from collections.abc import Sequence
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Policy
from tasks.normalize.base import Importer
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_dict, a_list, an_object, transcript
from tasks.normalize.usage import usage_of

_KNOWN = frozenset({"history", "trajectory", "info", "environment"})
_STEP = frozenset({"action", "observation", "response", "thought", "execution_time", "tool_calls", "tool_call_ids"})
_TURN = frozenset({"role", "content", "message_type", "action", "thought", "is_demo", "tool_calls", "tool_call_ids"})


class Sweagent(Importer, frozen=True, kw_only=True):
    """Reads SWE-agent trajectories, with calls as OpenAI tool calls or as the action's text."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        record = an_object(record)
        draft = Draft()
        history = a_list(record.get("history"), "history")
        steps = a_list(record.get("trajectory"), "trajectory")
        if not history and not steps:
            raise RecordError("no_messages", "neither 'history' nor 'trajectory' holds anything")
        messages = _turns(history) or _from_steps(steps, draft)
        if history:
            _lose_steps(steps, draft)
        info = a_dict(record.get("info"))
        draft.extra.update(draft.rest({"info": info or None, "environment": record.get("environment")}, ()))
        usage = usage_of(info.get("model_stats"))
        if usage is not None:
            draft.extra["usage_total"] = {"cost_usd": usage.cost_usd, "prompt_tokens": usage.prompt_tokens}
        policy = Policy(harness="swe-agent", harness_version=_version(info))
        exit_status = info.get("exit_status")
        return (
            transcript(
                messages,
                draft,
                record,
                known=_KNOWN,
                drop=self.drop_fields,
                policy=policy,
                truncated=isinstance(exit_status, str) and "exit_" in exit_status,
            ),
        )


def _version(info: dict[str, Any]) -> str | None:
    value = info.get("swe_agent_version")
    return value if isinstance(value, str) else None


def _turns(history: list[Any]) -> list[dict[str, Any]]:
    """The turns of a history; the first observation is the task, which answers no call."""
    made: list[dict[str, Any]] = []
    for item in history:
        called = bool(made) and (made[-1].get("role") == "tool" or "tool_calls" in made[-1])
        made.append(_turn(an_object(item, "a turn"), called))
    return made


def _turn(turn: dict[str, Any], called: bool) -> dict[str, Any]:
    made = {key: value for key, value in turn.items() if key not in _TURN}
    role = turn.get("role")
    made.update(role=role, content=turn.get("content"))
    if turn.get("is_demo"):
        made["copied_context"] = True
    if role == "assistant":
        if turn.get("tool_calls"):
            made["tool_calls"] = turn["tool_calls"]
            if isinstance(turn.get("thought"), str):
                made["content"] = turn["thought"]
        elif isinstance(turn.get("action"), str) and turn["action"].strip():
            made.update(_acted(turn))
    elif role == "tool" or (called and turn.get("message_type") == "observation"):
        made["role"] = "tool"
        ids = turn.get("tool_call_ids")
        if isinstance(ids, list) and ids and isinstance(ids[0], str):
            made["tool_call_id"] = ids[0]
    return made


def _acted(turn: dict[str, Any]) -> dict[str, Any]:
    """Thought and action of a turn whose call is text: the action is a shell command."""
    thought = turn.get("thought")
    return {
        "content": thought if isinstance(thought, str) else None,
        "tool_calls": [{"function": {"name": "bash", "arguments": {"command": turn["action"]}}}],
    }


def _from_steps(steps: list[Any], draft: Draft) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    first = steps[0] if isinstance(steps[0], dict) else {}
    opening = first.get("query") or first.get("messages")
    if isinstance(opening, list):
        messages.extend(_turns(opening))
    for item in steps:
        step = an_object(item, "a step")
        draft.lose_rest(step, _STEP | {"query", "messages"}, "trajectory[]")
        made: dict[str, Any] = {"role": "assistant", "content": step.get("response") or step.get("thought")}
        if step.get("tool_calls"):
            made.update(tool_calls=step["tool_calls"], content=step.get("thought"))
        elif isinstance(step.get("action"), str) and step["action"].strip():
            made.update(_acted(step))
        messages.append(made)
        if step.get("observation") is not None:
            seen = step["observation"]
            messages.append({"role": "tool", "content": seen if isinstance(seen, str) else compact(seen)})
    return messages


def _lose_steps(steps: list[Any], draft: Draft) -> None:
    """What the steps hold beyond the history."""
    for step in steps:
        if isinstance(step, dict):
            draft.lose_rest(step, _STEP - {"execution_time"}, "trajectory[]")
