"""Source → interlingua → source gives every name, argument, result, role, order and outcome back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import RecordError
from tasks.emit.format import adp, atif, hermes, openai_chat, sharegpt
from tasks.normalize.importer.adp import Adp
from tasks.normalize.importer.atif import Atif
from tasks.normalize.importer.openai_chat import OpenaiChat
from tasks.normalize.importer.sharegpt import Sharegpt

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORD = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUE = st.recursive(SCALAR, lambda v: st.lists(v, max_size=2) | st.dictionaries(WORD, v, max_size=2), max_leaves=4)
ARGUMENTS = st.dictionaries(WORD, VALUE, max_size=3)
TOOLS = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("function"), "function": st.fixed_dictionaries({"name": WORD, "parameters": ARGUMENTS})}
    ),
    min_size=1,
    max_size=2,
)
OUTCOME = st.fixed_dictionaries(
    {}, optional={"resolved": st.booleans(), "reward": st.floats(0, 1), "target": st.booleans()}
)


# What a turn shows beside text: addresses, data URLs, sound.
PIECES = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXT),
    st.builds(lambda name: {"type": "image_url", "image_url": {"url": f"http://x.test/{name}.png"}}, WORD),
    st.builds(lambda name: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name}="}}, WORD),
    st.builds(lambda name: {"type": "input_audio", "input_audio": {"data": name, "format": "wav"}}, WORD),
    st.builds(lambda name: {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{name}"}}, WORD),
)
CONTENT = TEXT | st.lists(PIECES, min_size=2, max_size=3)


def numbered(messages: list[Any]) -> list[Any]:
    """Gives every call of a conversation an id of its own, as a real one has."""
    count = 0
    for message in messages:
        for call in message.get("tool_calls", []):
            count += 1
            call["id"] = f"call_{count}"
    return messages


@st.composite
def openai_records(draw: st.DrawFn) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": draw(st.sampled_from(["system", "developer"])), "content": draw(TEXT)})
    for turn in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(CONTENT)})
        message: dict[str, Any] = {"role": "assistant", "content": draw(TEXT | st.none())}
        if draw(st.booleans()):
            message["reasoning_content"] = draw(TEXT)
        if draw(st.booleans()):
            message["weight"] = draw(st.sampled_from([0.0, 1.0]))
        calls = draw(st.lists(st.tuples(WORD, ARGUMENTS.map(json.dumps) | st.just('{"cut": "of')), max_size=3))
        if calls:
            message["tool_calls"] = [
                {"id": f"call_{turn}_{k}", "type": "function", "function": {"name": name, "arguments": text}}
                for k, (name, text) in enumerate(calls)
            ]
        messages.append(message)
        answered = draw(st.permutations(range(len(calls)))) if calls else []
        for k in answered[: draw(st.integers(0, len(calls)))]:
            messages.append({"role": "tool", "content": draw(CONTENT), "tool_call_id": f"call_{turn}_{k}"})
    record: dict[str, Any] = {"messages": messages, "id": draw(WORD), **draw(OUTCOME)}
    if draw(st.booleans()):
        record["model"] = draw(WORD)
    if draw(st.booleans()):
        record["tools"] = draw(TOOLS)
    return record


@given(openai_records())
def test_openai_chat(record: dict[str, Any]) -> None:
    reading = OpenaiChat(paths=()).read(record)[0].trajectory
    assert openai_chat.write(reading) == record
    assert reading.provenance.lost_fields == ()


@st.composite
def sharegpt_records(draw: st.DrawFn) -> dict[str, Any]:
    from tasks.normalize.decoder.found import compact

    own_turns = draw(st.booleans())
    plain = TEXT.map(lambda text: text.replace("<", "(").strip())
    turns: list[dict[str, Any]] = []
    if draw(st.booleans()):
        turns.append({"from": "system", "value": draw(plain)})
    for _ in range(draw(st.integers(1, 3))):
        turns.append({"from": "human", "value": draw(plain)})
        calls = [{"name": n, "arguments": a} for n, a in draw(st.lists(st.tuples(WORD, ARGUMENTS), max_size=2))]
        if calls and own_turns:
            turns.append({"from": "function_call", "value": compact(calls if len(calls) > 1 else calls[0])})
            turns.extend({"from": "observation", "value": draw(plain)} for _ in calls)
        elif calls:
            thought = draw(plain)
            blocks = [f"<tool_call>\n{compact(call)}\n</tool_call>" for call in calls]
            turns.append({"from": "gpt", "value": "\n".join([thought, *blocks] if thought else blocks)})
            turns.extend({"from": "tool", "value": f"<tool_response>\n{draw(plain)}\n</tool_response>"} for _ in calls)
        turns.append({"from": "gpt", "value": draw(plain)})
    record: dict[str, Any] = {"conversations": turns, "id": draw(WORD), **draw(OUTCOME)}
    if draw(st.booleans()):
        record["tools"] = compact(draw(TOOLS))
    return record


@given(sharegpt_records())
def test_sharegpt(record: dict[str, Any]) -> None:
    reading = Sharegpt(paths=()).read(record)[0].trajectory
    assert sharegpt.write(reading) == record
    assert reading.provenance.lost_fields == ()


@given(sharegpt_records())
def test_hermes_text(record: dict[str, Any]) -> None:
    """Chat messages whose calls are text come back as they were, from a reader that knows Hermes text."""
    first = Sharegpt(paths=()).read(record)[0].trajectory
    messages = hermes.write(first)
    second = OpenaiChat(paths=(), calls=("hermes",)).read(messages)[0].trajectory
    assert hermes.write(second) == messages
    assert [(c.name, c.arguments_json) for s in first.steps for c in s.tool_calls] == [
        (c.name, c.arguments_json) for s in second.steps for c in s.tool_calls
    ]
    assert [r.content for s in first.steps for r in s.results] == [r.content for s in second.steps for r in s.results]
    assert [s.source for s in first.steps] == [s.source for s in second.steps]
    assert (first.outcome, second.provenance.lost_fields) == (second.outcome, ())


@st.composite
def adp_records(draw: st.DrawFn) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    observation = st.one_of(
        st.fixed_dictionaries(
            {
                "class_": st.just("text_observation"),
                "content": TEXT,
                "name": st.none() | WORD.filter(lambda w: w != "system"),
                "source": st.sampled_from(["user", "environment", "agent"]),
            }
        ),
        st.fixed_dictionaries(
            {
                "class_": st.just("image_observation"),
                "content": WORD,
                "annotations": st.none(),
                "source": st.just("environment"),
            }
        ),
        st.fixed_dictionaries(
            {
                "class_": st.just("web_observation"),
                "html": st.none() | TEXT,
                "axtree": TEXT,
                "url": st.none() | WORD,
                "image_observation": st.none(),
                "viewport_size": st.none(),
            }
        ),
    )
    action = st.one_of(
        st.fixed_dictionaries(
            {"class_": st.just("api_action"), "function": WORD, "kwargs": ARGUMENTS, "description": st.none() | TEXT},
            optional={"reward": st.floats(0, 1)},
        ),
        st.fixed_dictionaries(
            {"class_": st.just("code_action"), "language": WORD, "content": TEXT, "description": st.none() | TEXT}
        ),
        st.fixed_dictionaries(
            {"class_": st.just("message_action"), "content": TEXT, "description": st.none() | TEXT},
            optional={"reasoning_content": TEXT},
        ),
    )
    for _ in range(draw(st.integers(1, 5))):
        content.append(draw(observation))
        content.append(draw(action))
    return {"id": draw(WORD), "content": content, "details": draw(st.dictionaries(WORD, TEXT, max_size=2))}


@given(adp_records())
def test_adp(record: dict[str, Any]) -> None:
    reading = Adp(paths=()).read(record)[0].trajectory
    written = adp.write(reading)
    assert written == record
    assert reading.provenance.lost_fields == ()


def test_adp_outcome_in_details_is_typed_and_comes_back() -> None:
    record = {
        "id": "x",
        "content": [{"class_": "message_action", "content": "hi"}],
        "details": {"resolved": "False", "reward": "0.5"},
    }
    reading = Adp(paths=()).read(record)[0].trajectory
    assert (reading.outcome.success, reading.outcome.score) == (False, 0.5)
    assert adp.write(reading)["details"] == record["details"]


@st.composite
def atif_records(draw: st.DrawFn) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    image = st.fixed_dictionaries(
        {"type": st.just("image"), "source": st.fixed_dictionaries({"media_type": st.just("image/png"), "path": WORD})}
    )
    content = TEXT | st.lists(image, min_size=1, max_size=2)
    for number in range(1, draw(st.integers(1, 5)) + 1):
        source = draw(st.sampled_from(["system", "user", "agent"]))
        step: dict[str, Any] = {"step_id": number, "source": source, "message": draw(content)}
        if draw(st.booleans()):
            step["timestamp"] = "2026-01-01T00:00:00Z"
        if source == "agent":
            if draw(st.booleans()):
                step["reasoning_content"] = draw(TEXT)
            if draw(st.booleans()):
                step["metrics"] = draw(
                    st.fixed_dictionaries({"prompt_tokens": st.integers(0, 9)}, optional={"cost_usd": st.floats(0, 1)})
                )
            calls = draw(st.lists(st.tuples(WORD, ARGUMENTS), max_size=3))
            if calls:
                step["tool_calls"] = [
                    {"tool_call_id": f"c{number}_{k}", "function_name": n, "arguments": a}
                    for k, (n, a) in enumerate(calls)
                ]
                step["observation"] = {
                    "results": [
                        {"source_call_id": f"c{number}_{k}", "content": draw(content)} for k in range(len(calls))
                    ]
                }
        steps.append(step)
    record: dict[str, Any] = {
        "schema_version": draw(st.sampled_from(["ATIF-v1.6", "ATIF-v1.7", "ATIF-v1.8"])),
        "trajectory_id": draw(WORD),
        "agent": draw(
            st.fixed_dictionaries(
                {"name": WORD, "version": WORD}, optional={"model_name": WORD, "tool_definitions": TOOLS}
            )
        ),
        "steps": steps,
    }
    if draw(st.booleans()):
        record["extra"] = draw(ARGUMENTS)
    if draw(st.booleans()):
        record["verifier_result"] = {"rewards": {"reward": draw(st.floats(0, 1))}}
    return record


@given(atif_records())
def test_atif(record: dict[str, Any]) -> None:
    reading = Atif(paths=()).read(record)[0].trajectory
    assert atif.write(reading) == record
    assert reading.provenance.lost_fields == ()


@pytest.mark.parametrize("writer", [openai_chat.write, sharegpt.write, adp.write, atif.write])
@given(record=openai_records())
def test_a_conversation_survives_every_format(writer: Any, record: dict[str, Any]) -> None:
    """Calls and their results, in order, are the same after a detour through any format."""
    reader = {openai_chat: OpenaiChat, sharegpt: Sharegpt, adp: Adp, atif: Atif}
    module = next(m for m in reader if m.write is writer)
    for message in record["messages"]:
        if isinstance(message["content"], list):  # ADP and ShareGPT know text, ATIF neither video nor files
            message["content"] = "parts"
        for key in ("content", "reasoning_content"):
            if isinstance(message.get(key), str):
                message[key] = message[key].replace("<", "(").strip()
        message.pop("weight", None)
        for call in message.get("tool_calls", []):
            if call["function"]["arguments"].startswith('{"cut'):
                call["function"]["arguments"] = "{}"
    first = OpenaiChat(paths=()).read(record)[0].trajectory
    second = reader[module](paths=()).read(writer(first))[0].trajectory
    assert [(c.name, c.arguments_json) for s in first.steps for c in s.tool_calls] == [
        (c.name, c.arguments_json) for s in second.steps for c in s.tool_calls
    ]
    assert [r.content for s in first.steps for r in s.results] == [r.content for s in second.steps for r in s.results]
    assert [s.source for s in first.steps] == [s.source for s in second.steps]
    assert (first.outcome.success, first.outcome.score) == (second.outcome.success, second.outcome.score)


def test_hermes_markup_inside_of_arguments_comes_back_and_in_results_is_refused() -> None:
    def made(argument: str, result: str) -> dict[str, Any]:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"x": argument})}}
        messages = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": result},
        ]
        return sharegpt.write(OpenaiChat(paths=()).read({"messages": messages})[0].trajectory)

    again = Sharegpt(paths=()).read(made("</tool_call><tool_call>", "r"))[0].trajectory
    assert again.steps[0].tool_calls[0].arguments_json == '{"x":"</tool_call><tool_call>"}'
    with pytest.raises(RecordError, match="markup_in_text"):
        made("x", "</tool_response>")


def test_images_beside_text_are_observations_of_their_own_in_adp() -> None:
    def image(name: str) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": f"media/{name}.png"}}

    parts = [{"type": "text", "text": "Look:"}, {"type": "text", "text": "two."}, image("a"), image("b")]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "Seen."}]
    record = adp.write(OpenaiChat(paths=()).read({"messages": messages})[0].trajectory)
    assert [(item["class_"], item["content"], item.get("source")) for item in record["content"]] == [
        ("text_observation", "Look:\ntwo.", "user"),
        ("image_observation", "media/a.png", "user"),
        ("image_observation", "media/b.png", "user"),
        ("message_action", "Seen.", None),
    ]


def test_token_ids_without_sampled_ones_are_named_as_lost() -> None:
    step = {"step_id": 1, "source": "agent", "message": "a", "metrics": {"prompt_token_ids": [1], "logprobs": [-1.0]}}
    record = {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": [step]}
    [reading] = Atif(paths=()).read(record)
    assert reading.spans == ()
    assert reading.trajectory.provenance.lost_fields == (
        "steps[].metrics.logprobs",
        "steps[].metrics.prompt_token_ids",
    )
