"""LangSmith runs: trees (`child_runs`) or flat rows of `{"run_type", "inputs", "outputs", "trace_id"…}`.

The model runs of a trace hold the messages; see `tasks.normalize.exchanges` for how they become conversations.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Outcome, Policy
from tasks.normalize.base import Importer
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.exchanges import Exchange, conversations
from tasks.normalize.known import lose_unknown
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_dict, a_list, an_object, transcript
from tasks.normalize.usage import number

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "chat": "user", "remove": "system"}
_CLASSES = {
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
}
_DEPTH = 64
_MESSAGE = """lc type id kwargs{content type name tool_call_id status tool_calls[]{name args id type} additional_kwargs}
    data role content name tool_calls tool_call_id additional_kwargs reasoning_content"""
_RUN = f"""id trace_id parent_run_id run_type start_time child_runs
    prompt_tokens completion_tokens total_tokens total_cost
    extra{{invocation_params{{model model_name tools}} metadata{{ls_model_name}}}}
    inputs{{messages[]{{{_MESSAGE}}}}}
    outputs{{generations[]{{text message{{{_MESSAGE}}}}} choices[]{{message}} messages message output}}"""
_OTHER = "id trace_id parent_run_id run_type start_time child_runs name error tags feedback_stats"


class Langsmith(Importer, frozen=True, kw_only=True):
    """Reads LangSmith runs with LangChain's or OpenAI's messages in them."""

    def takes_whole(self, path: Path) -> bool:
        """Runs of one trace stand on several lines."""
        return True

    def read(self, record: Any) -> Sequence[Reading]:
        """The conversations of every trace in the file."""
        lost = Draft()
        traces: dict[str, list[dict[str, Any]]] = {}
        roots: dict[str, dict[str, Any]] = {}
        for run in _runs(record if isinstance(record, list) else [record], 0):
            lose_unknown(lost, run, _RUN if run.get("run_type") == "llm" else _OTHER, f"runs.{run.get('run_type')}")
            trace = str(run.get("trace_id") or run.get("id"))
            if not run.get("parent_run_id"):
                roots[trace] = run
            if run.get("run_type") == "llm":
                traces.setdefault(trace, []).append(run)
        if not traces:
            raise RecordError("no_messages", "no run of type llm")
        readings: list[Reading] = []
        for trace, runs in traces.items():
            ordered = sorted(runs, key=lambda run: str(run.get("start_time") or ""))
            talks = conversations([_exchange(run) for run in ordered])
            for order, talk in enumerate(talks):
                draft = Draft()
                draft.lost.update(lost.lost)
                root = roots.get(trace, {})
                readings.append(
                    transcript(
                        talk.messages,
                        draft,
                        {"name": root.get("name"), "error": root.get("error"), "tags": root.get("tags") or None},
                        tools=talk.about("tools"),
                        drop=self.drop_fields,
                        outcome=_outcome(root),
                        policy=Policy(model=talk.about("model"), harness="langchain"),
                        source_id=f"{trace}#{order}" if order else trace,
                    )
                )
        return readings


def _runs(runs: list[Any], depth: int) -> Iterator[dict[str, Any]]:
    if depth > _DEPTH:
        raise RecordError("too_deep", f"runs nested deeper than {_DEPTH}")
    for item in runs:
        run = an_object(item, "a run")
        yield run
        trace = run.get("trace_id") or run.get("id")
        children = [
            {"trace_id": trace, "parent_run_id": run.get("id"), **child} if isinstance(child, dict) else child
            for child in a_list(run.get("child_runs"), "child_runs")
        ]
        yield from _runs(children, depth + 1)


def _exchange(run: dict[str, Any]) -> Exchange:
    inputs, outputs = a_dict(run.get("inputs")), a_dict(run.get("outputs"))
    given = a_list(inputs.get("messages"), "inputs.messages")
    if given and isinstance(given[0], list):
        given = given[0]
    parameters = a_dict(a_dict(run.get("extra")).get("invocation_params"))
    model = (
        parameters.get("model")
        or parameters.get("model_name")
        or a_dict(a_dict(run.get("extra")).get("metadata")).get("ls_model_name")
    )
    usage = {name: run[name] for name in ("prompt_tokens", "completion_tokens") if number(run.get(name)) is not None}
    cost = number(run.get("total_cost"))
    if cost is not None:
        usage["cost_usd"] = cost
    about = {
        "timestamp": run.get("start_time"),
        "usage": usage or None,
        "model": model if isinstance(model, str) else None,
        "tools": parameters.get("tools"),
    }
    answer = _answer(outputs)
    for message in answer:
        message.update({key: value for key, value in about.items() if key != "tools" and value is not None})
    return Exchange([_message(item) for item in given], answer, about)


def _answer(outputs: dict[str, Any]) -> list[dict[str, Any]]:
    generations = outputs.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    if isinstance(generations, dict):
        message = generations.get("message")
        return [_message(message if message is not None else {"role": "assistant", "content": generations.get("text")})]
    choices = outputs.get("choices")
    if isinstance(choices, list) and choices:
        return [_message(a_dict(choices[0]).get("message"))]
    if isinstance(outputs.get("messages"), list):
        return [_message(item) for item in outputs["messages"]]
    message = outputs.get("message") or outputs.get("output")
    return [] if message is None else [_message(message)]


def _message(item: Any) -> dict[str, Any]:
    """LangChain's serialized message, or a plain one, in chat shape."""
    message = an_object(item, "a message")
    inner = message
    if isinstance(message.get("kwargs"), dict):
        inner = message["kwargs"]
        names = message.get("id")
        role: Any = (
            _CLASSES.get(names[-1]) if isinstance(names, list) and names and isinstance(names[-1], str) else None
        )
    elif isinstance(message.get("data"), dict):
        inner, role = message["data"], message.get("type")
    else:
        role = message.get("role") or message.get("type")
    role = _ROLES.get(role, role) if isinstance(role, str) else None
    more = a_dict(inner.get("additional_kwargs"))
    made: dict[str, Any] = {"role": role, "content": inner.get("content")}
    calls = inner.get("tool_calls") or more.get("tool_calls")
    if isinstance(calls, list) and calls:
        made["tool_calls"] = [_call(call) for call in calls]
    for key in ("name", "tool_call_id", "reasoning_content"):
        value = inner.get(key) if inner.get(key) is not None else more.get(key)
        if value is not None:
            made[key] = value
    if inner.get("status") == "error":
        made["is_error"] = True
    return made


def _call(call: Any) -> Any:
    if isinstance(call, dict) and "args" in call:
        args = call["args"]
        return {"id": call.get("id"), "function": {"name": call.get("name"), "arguments": args}}
    return call


def _outcome(root: dict[str, Any]) -> Outcome:
    feedback = root.get("feedback_stats")
    if not isinstance(feedback, dict) or not feedback:
        return Outcome()
    first = a_dict(next(iter(feedback.values())))
    average = number(first.get("avg"))
    return Outcome(score=None if average is None else float(average), raw_json=compact({"feedback_stats": feedback}))
