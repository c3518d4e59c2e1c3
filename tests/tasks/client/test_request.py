"""The key holds everything that shapes an answer, and nothing else."""

import msgspec
import pytest

from tasks.client.request import ModelReply, ModelRequest
from tasks.rollout.teacher.openai import OpenAI

BASE = ModelRequest(messages=({"role": "user", "content": "a"},), max_tokens=5, temperature=1.0, top_p=1.0, seed=1)


def key(request: ModelRequest = BASE, endpoint="e", model="m", revision=None, extra=None) -> str:
    return request.key(endpoint, model, revision, extra or {})


@pytest.mark.parametrize(
    "change",
    [
        {"messages": ({"role": "user", "content": "b"},)},
        {"messages": ({"role": "system", "content": "s"}, {"role": "user", "content": "a"})},
        {"max_tokens": 6},
        {"temperature": 0.9},
        {"top_p": 0.9},
        {"stop": ("x",)},
        {"seed": 2},
        {"sample_index": 1},
        {"tools_json": "[]"},
        {"tool_choice": "auto"},
        {"response_format": {"type": "json_object"}},
        {"logprobs": True},
        {"token_ids": True},
    ],
    ids=str,
)
def test_what_shapes_the_answer_changes_the_key(change):
    assert key(msgspec.structs.replace(BASE, **change)) != key()


def test_where_it_is_asked_changes_the_key():
    assert len({key(), key(endpoint="f"), key(model="n"), key(revision="r"), key(extra={"min_p": 0.1})}) == 5


def test_whose_call_it_is_does_not():
    assert key(msgspec.structs.replace(BASE, item_id="other")) == key()
    shuffled = ModelRequest(**{**msgspec.structs.asdict(BASE), "messages": ({"content": "a", "role": "user"},)})
    assert key(shuffled) == key()


def test_every_field_but_the_owner_is_in_the_key():
    covered = {"messages", "max_tokens", "temperature", "top_p", "stop", "seed", "sample_index", "tools_json"}
    covered |= {"tool_choice", "response_format", "logprobs", "token_ids", "item_id"}
    assert set(ModelRequest.__struct_fields__) == covered, "a new field must go into key() and into the test above"


def test_defaults_of_the_teacher_are_settled_before_the_key():
    bare = ModelRequest(messages=BASE.messages)
    warm, cold = (OpenAI(base_url="http://h/v1", model="m", temperature=t) for t in (1.0, 0.1))
    assert key(warm.settle(bare)) != key(cold.settle(bare))


def test_a_reply_survives_recording():
    reply = ModelReply(text="ü🎉", key="k", completion_token_ids=(1, 2), logprobs=(-0.5, -0.25), cost_usd=0.1)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=ModelReply) == reply
