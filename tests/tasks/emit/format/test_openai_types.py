"""OpenAI's own types judge ours: what we write fits them, and what they write is read whole."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.responses import Response, ResponseInputItemParam
from pydantic import ConfigDict, TypeAdapter, ValidationError

from schemas.trajectory import Part, Step, ToolCall, ToolResult, Trajectory, text_of
from schemas.vocabulary import PartType, Source
from tasks.emit.format import openai_chat
from tasks.normalize.importer.openai_chat import OpenaiChat
from tasks.normalize.importer.openai_responses import OpenaiResponses

MESSAGE: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
TOOL: TypeAdapter[Any] = TypeAdapter(ChatCompletionToolParam)
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORD = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
ARGUMENTS = st.dictionaries(WORD, TEXT | st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=2)
MEDIA = st.sampled_from(
    [
        Part(type=PartType.IMAGE, uri="http://x.test/a.png"),
        Part(type=PartType.IMAGE, uri="data:image/png;base64,AA==", media_type="image/png"),
        Part(type=PartType.AUDIO, uri="data:audio/wav;base64,AA==", media_type="audio/wav"),
        Part(type=PartType.FILE, uri="data:application/pdf;base64,AA==", media_type="application/pdf"),
    ]
)


def whole(value: Any) -> Any:
    """The validated value with every lazily validated part of it looked at."""
    if isinstance(value, dict):
        return {key: whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple) or (isinstance(value, Iterator) or type(value).__name__ == "ValidatorIterator"):
        return [whole(inner) for inner in value]
    return value


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    steps: list[Step] = []
    if draw(st.booleans()):
        steps.append(Step(source=Source.SYSTEM, content=(Part(text=draw(TEXT)),)))
    for _ in range(draw(st.integers(1, 3))):
        parts = (Part(text=draw(TEXT)), *draw(st.lists(MEDIA, max_size=2)))
        steps.append(Step(source=Source.USER, content=parts, name=draw(st.none() | WORD)))
        made = draw(st.lists(st.tuples(WORD, ARGUMENTS), max_size=3))
        calls = tuple(
            ToolCall(id=f"s{len(steps)}c{n}", name=name, arguments=json.dumps(given), arguments_json=json.dumps(given))
            for n, (name, given) in enumerate(made)
        )
        results = tuple(ToolResult(call_id=call.id, content=(Part(text=draw(TEXT)),)) for call in calls)
        said = (Part(text=draw(TEXT)),) if draw(st.booleans()) or not calls else ()
        steps.append(Step(source=Source.AGENT, content=said, tool_calls=calls, results=results, tools=0))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    return Trajectory(id="t", steps=tuple(steps), tool_sets=(json.dumps([tool]),))


@given(trajectories())
def test_messages_fit_the_types_of_a_request(trajectory: Trajectory) -> None:
    record = openai_chat.write(trajectory)
    for message in record["messages"]:
        # A union gives the first type that fits; the role says which it has to be.
        seen = whole(MESSAGE.validate_python(message))
        assert seen["role"] == message["role"]
        assert [call["id"] for call in seen.get("tool_calls", [])] == [c["id"] for c in message.get("tool_calls", [])]
        if message["role"] == "assistant" and not message.get("tool_calls"):
            assert message["content"] is not None
        if message["role"] == "tool":
            assert message["tool_call_id"]
    assert [whole(TOOL.validate_python(tool)) for tool in record["tools"]] == record["tools"]


def test_the_judge_is_awake() -> None:
    for wrong in (
        {"role": "tool", "content": "x"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
    ):
        with pytest.raises(ValidationError):
            whole(MESSAGE.validate_python(wrong))


@given(trajectories())
def test_answers_fit_the_type_of_a_completion(trajectory: Trajectory) -> None:
    """Turns of the agent as the API itself would answer, with unknown fields refused where the type knows them all."""
    strict: Any = type("Strict", (ChatCompletionMessage,), {"model_config": ConfigDict(extra="forbid")})
    for message in openai_chat.write(trajectory)["messages"]:
        if message["role"] == "assistant":
            kept = strict.model_validate(message)
            assert [call.function.name for call in kept.tool_calls or ()] == [
                call["function"]["name"] for call in message.get("tool_calls", [])
            ]


def response(*output: dict[str, Any]) -> dict[str, Any]:
    """A response as OpenAI's library holds it: built by its types, written by them."""
    made = Response.model_validate(
        {
            "id": "resp_1",
            "created_at": 0,
            "model": "m",
            "object": "response",
            "output": list(output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": True}],
            "usage": {
                "input_tokens": 20,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 25,
            },
        }
    )
    return made.model_dump(mode="json", warnings="error")


@given(st.lists(st.tuples(WORD, ARGUMENTS), min_size=1, max_size=3), TEXT.filter(bool), TEXT.filter(bool))
def test_a_response_of_their_types_is_read(calls: list[tuple[str, dict[str, Any]]], thought: str, text: str) -> None:
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": thought}]},
        *(
            {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": name, "arguments": json.dumps(given),
             "status": "completed"}
            for n, (name, given) in enumerate(calls)
        ),
    ]  # fmt: skip
    first = response(*output)
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}  # fmt: skip
    answers = [{"type": "function_call_output", "call_id": f"c{n}", "output": f"r{n}"} for n in range(len(calls))]
    asked = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}]
    given_back = [{key: value for key, value in item.items() if value is not None} for item in first["output"]]
    items = [*asked, *given_back, *answers]
    for item in items:
        whole(ITEM.validate_python(item))
    record = {**response(said), "input": items}
    [reading] = OpenaiResponses(paths=()).read(record)
    user, agent, last = reading.trajectory.steps
    assert (text_of(user.content), agent.reasoning, text_of(last.content)) == ("go", thought, text)
    assert [(c.name, json.loads(str(c.arguments_json)), c.source_id) for c in agent.tool_calls] == [
        (name, given, f"c{n}") for n, (name, given) in enumerate(calls)
    ]
    assert [text_of(result.content) for result in agent.results] == [f"r{n}" for n in range(len(calls))]
    assert reading.trajectory.policy.model == "m"
    again = OpenaiChat(paths=()).read(openai_chat.write(reading.trajectory))[0].trajectory
    assert [step.source for step in again.steps] == [Source.USER, Source.AGENT, Source.AGENT]
