"""xLAM: function-calling rows (`query`, `tools`, `answers`) and ActionStudio's unified trajectories.

A unified trajectory is `{"task_instruction", "conversation": [chat messages], "tools"}` or, in its older form,
`{"query", "steps": [{"thought", "tool_calls", "next_observation", "user_input"}]}`.
"""

from collections.abc import Sequence
from typing import Any

from schemas.errors import RecordError
from tasks.normalize.base import Importer
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.reading import Reading
from tasks.normalize.strict import decode
from tasks.normalize.transcript import a_list, an_object, transcript

_KNOWN = frozenset({"query", "tools", "answers", "task_instruction", "conversation", "steps", "unique_trajectory_id"})
_STEP = frozenset({"step_id", "thought", "tool_calls", "next_observation", "user_input"})


class Xlam(Importer, frozen=True, kw_only=True):
    """Reads xLAM rows and ActionStudio trajectories."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        record = an_object(record)
        draft = Draft()
        messages: list[Any] = []
        if record.get("task_instruction"):
            messages.append({"role": "system", "content": record["task_instruction"]})
        if isinstance(record.get("conversation"), list):
            messages.extend(record["conversation"])
        elif record.get("query") is not None:
            messages.append({"role": "user", "content": record["query"]})
            if "answers" in record:
                messages.append({"role": "assistant", "content": None, "tool_calls": _calls(record["answers"])})
            for step in a_list(record.get("steps"), "steps"):
                messages.extend(_step(an_object(step, "a step"), draft))
        else:
            raise RecordError("no_messages", "neither 'conversation' nor 'query'")
        key = record.get("unique_trajectory_id")
        return (
            transcript(
                messages,
                draft,
                record,
                tools=record.get("tools"),
                known=_KNOWN,
                drop=self.drop_fields,
                source_id=key if isinstance(key, str) else None,
            ),
        )


def _calls(given: Any) -> list[dict[str, Any]]:
    if isinstance(given, str):
        given = decode(given.encode("utf-8", "surrogatepass")).value
    calls = given if isinstance(given, list) else [given]
    return [{"id": call.get("id"), "function": call} if isinstance(call, dict) else call for call in calls]


def _step(step: dict[str, Any], draft: Draft) -> list[dict[str, Any]]:
    draft.lose_rest(step, _STEP, "steps[]")
    turn: dict[str, Any] = {"role": "assistant", "content": step.get("thought") or None}
    if step.get("tool_calls"):
        turn["tool_calls"] = _calls(step["tool_calls"])
    made = [turn]
    observation = step.get("next_observation")
    if observation not in (None, ""):
        text = observation if isinstance(observation, str) else compact(observation)
        made.append({"role": "tool", "content": text})
    if step.get("user_input"):
        made.append({"role": "user", "content": step["user_input"]})
    return made
