"""The client against a real HTTP server: what is paid, what is retried, what becomes a record."""

import asyncio
import json
import time

import pytest
from aiohttp import web

from schemas.errors import UserError
from tasks.client.client import accounts
from tasks.client.request import CallFailure, Cause, ModelReply


def test_an_answer_is_paid_once(peer, teacher, ask, make_client):
    client, requests = make_client(), ask(20)
    first = client.complete_all(teacher(), requests)
    again = client.complete_all(teacher(), requests)
    assert len(peer.bodies) == 20
    assert [r.text for r in first] == [r.text for r in again]
    assert not any(r.cached for r in first)
    assert all(r.cached for r in again)
    assert [r.account("i").id for r in first] == [r.account("i").id for r in again]
    assert client.counters()["calls"] == 20
    assert client.counters()["cached"] == 20


def test_another_client_finds_the_recorded_answers(peer, teacher, ask, make_client):
    make_client().complete_all(teacher(), ask(5))
    second = make_client()
    assert all(r.cached for r in second.complete_all(teacher(), ask(5)))
    assert second.counters()["calls"] == 0
    assert len(peer.bodies) == 5


def test_one_more_request_pays_for_one(peer, teacher, ask, make_client):
    client = make_client()
    client.complete_all(teacher(), ask(5))
    client.complete_all(teacher(), ask(6))
    assert len(peer.bodies) == 6


def test_equal_requests_at_once_are_sent_once(peer, teacher, ask, make_client):
    client = make_client()
    results = client.complete_all(teacher(), ask(1) * 30)
    assert len(peer.bodies) == 1
    assert {r.text for r in results} == {"answer 0"}


def test_samples_are_different_calls(peer, teacher, ask, make_client):
    requests = [r for k in range(8) for r in ask(1, sample_index=k)]
    make_client().complete_all(teacher(), requests)
    assert len(peer.bodies) == 8


def test_what_is_sent(peer, teacher, ask, make_client):
    tools = '[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]'
    make_client().complete_all(
        teacher(extra_body={"min_p": 0.1}, temperature=0.3),
        ask(1, max_tokens=7, seed=2**40 + 5, stop=("a",), tools_json=tools, logprobs=True, token_ids=True),
    )
    body = peer.bodies[0]
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "question 0"}],
        "max_tokens": 7,
        "temperature": 0.3,
        "stop": ["a"],
        "seed": 5,
        "tools": json.loads(tools),
        "logprobs": True,
        "return_token_ids": True,
        "min_p": 0.1,
    }


def test_a_burst_of_429_uses_up_no_attempt(peer, teacher, ask, make_client, made):
    limited = made.reply({"error": {"message": "slow down"}}, 429, Retry_After="0.05")
    peer.script(*[limited] * 30, peer.ok)
    client = make_client()
    results = client.complete_all(teacher(attempts=1, parallel=8), ask(10))
    assert all(isinstance(r, ModelReply) and r.attempts == 1 for r in results)
    assert any("429" in line for line in client.said)


def test_retry_after_closes_the_lane_for_all(peer, teacher, ask, make_client, made):
    peer.script(made.reply({}, 429, Retry_After="0.7"), peer.ok)
    client = make_client()
    started = time.monotonic()
    assert all(isinstance(r, ModelReply) for r in client.complete_all(teacher(parallel=1), ask(3)))
    assert time.monotonic() - started >= 0.7
    assert peer.times[1] - peer.times[0] >= 0.65


def test_429_without_end_leaves_the_item_pending(peer, teacher, ask, make_client, made):
    peer.script(made.reply({}, 429, Retry_After="0.05"))
    (failure,) = make_client().complete_all(teacher(patience_s=0.3), ask(1))
    assert failure.cause is Cause.RATE_LIMITED
    assert failure.pending
    assert failure.attempts == 0


def test_rate_limit_headers_of_a_good_answer_are_honoured(peer, teacher, ask, make_client, made):
    last = made.reply(made.completion(), x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="600ms")
    peer.script(last, peer.ok)
    make_client().complete_all(teacher(parallel=1), ask(2))
    assert peer.times[1] - peer.times[0] >= 0.55


def test_an_empty_account_is_no_rate_limit(peer, teacher, ask, make_client, made):
    peer.script(made.reply({"error": {"code": "insufficient_quota"}}, 429))
    (failure,) = make_client().complete_all(teacher(), ask(1))
    assert (failure.cause, failure.pending, len(peer.bodies)) == (Cause.QUOTA, True, 1)


async def _hang(request: web.Request, number: int) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


async def _half(request: web.Request, number: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "500"})
    await response.prepare(request)
    await response.write(b'{"choices": [{"mess')
    request.transport.close()
    return response


async def _reset(request: web.Request, number: int) -> web.StreamResponse:
    request.transport.abort()
    return web.Response()


def completion_with(message: dict, finish_reason: str) -> dict:
    return {"choices": [{"message": message, "finish_reason": finish_reason}], "usage": {"completion_tokens": 9}}


# name: what the server does (a coroutine, or body and status), the cause, how many of two attempts are sent.
BAD = {
    "hung socket": (_hang, Cause.TIMEOUT, 2),
    "half-closed stream": (_half, Cause.CONNECTION, 2),
    "reset": (_reset, Cause.CONNECTION, 2),
    "gateway page": (("<html><body>Bad gateway</body></html>", 502), Cause.SERVER_ERROR, 2),
    "login page": (("<!DOCTYPE html><p>Please sign in", 200), Cause.HTML_PAGE, 2),
    "firewall page": (("<html>blocked</html>", 403), Cause.HTML_PAGE, 2),
    "no such model": (({"error": {"message": "no such model"}}, 404), Cause.REJECTED, 1),
    "bad request": (({"error": "context too long"}, 400), Cause.REJECTED, 1),
    "bad key": (({"error": {"message": "no"}}, 401), Cause.AUTH, 1),
    "empty choices": (({"id": "x", "choices": []}, 200), Cause.EMPTY_CHOICES, 2),
    "error under 200": (({"error": {"message": "overloaded"}}, 200), Cause.SERVER_ERROR, 2),
    "cut JSON": ((b'{"choices": [{"message": {"content": "cut', 200), Cause.BAD_JSON, 2),
    "no UTF-8": ((b'{"choices": [{"message": {"content": "\xff\xfe"}}]}', 200), Cause.BAD_JSON, 2),
    "another shape": (([1, 2], 200), Cause.BAD_JSON, 2),
    "null content": ((completion_with({"content": None}, "length"), 200), Cause.NULL_CONTENT, 2),
    "white space": ((completion_with({"content": "{" + " \n" * 99}, "length"), 200), Cause.WHITESPACE, 2),
    "redirect": (({}, 307), Cause.REJECTED, 1),
}


@pytest.mark.parametrize("name", BAD)
def test_a_failed_call_is_a_record_with_its_cause(peer, teacher, ask, make_client, made, name):
    behaviour, cause, sent = BAD[name]
    peer.script(behaviour if callable(behaviour) else made.reply(*behaviour, Location="http://127.0.0.1:9/v1"))
    client = make_client()
    (failure,) = client.complete_all(teacher(timeout_s=0.4, attempts=2), ask(1))
    assert isinstance(failure, CallFailure), failure
    assert (failure.cause, failure.first_cause, len(peer.bodies)) == (cause, cause, sent)
    assert failure.item_id == "item0"
    assert failure.endpoint == peer.url
    assert client.failures == [failure]
    # A failure is never cached: the next try asks again.
    peer.script(peer.ok)
    assert isinstance(client.complete_all(teacher(), ask(1))[0], ModelReply)


def test_an_endpoint_that_is_down(teacher, ask, make_client):
    (failure,) = make_client().complete_all(teacher(base_url="http://127.0.0.1:9/v1", attempts=2), ask(1))
    assert failure.cause is Cause.CONNECTION
    assert failure.attempts == 2


def test_the_first_cause_is_kept(peer, teacher, ask, make_client, made):
    peer.script(made.reply("<html>", 502), made.reply({"choices": []}))
    (failure,) = make_client().complete_all(teacher(attempts=2), ask(1))
    assert (failure.first_cause, failure.cause) == (Cause.SERVER_ERROR, Cause.EMPTY_CHOICES)
    assert "502" in failure.detail


def test_content_as_parts_refusals_and_tool_calls(peer, teacher, ask, make_client, made):
    parts = [{"type": "text", "text": "one "}, {"type": "image_url"}, {"type": "text", "text": "two"}]
    call = {"id": "c9", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}
    peer.script(
        made.reply(made.completion(parts)),
        made.reply(made.completion(message={"content": None, "refusal": "I will not."})),
        made.reply(made.completion(message={"content": None, "tool_calls": [call]}, finish_reason="tool_calls")),
    )
    text, refused, called = make_client().complete_all(teacher(parallel=1), ask(3))
    assert text.text == "one two"
    assert refused.refusal == "I will not."
    assert called.tool_calls[0].arguments == '{"a": '  # as it came, never repaired


def test_four_byte_characters_split_across_chunks(peer, teacher, ask, make_client, made):
    body = json.dumps(made.completion("🎉東京" * 50), ensure_ascii=False).encode()

    async def drip(request: web.Request, number: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for start in range(0, len(body), 7):
            await response.write(body[start : start + 7])
        return response

    peer.script(drip)
    assert make_client().complete_all(teacher(), ask(1))[0].text == "🎉東京" * 50


def test_white_space_is_tried_again_with_another_seed(peer, teacher, ask, make_client, made):
    peer.script(made.reply(made.completion(" " * 300, finish_reason="length")), peer.ok)
    (reply,) = make_client().complete_all(teacher(), ask(1, seed=11))
    assert reply.attempts == 2
    assert [body["seed"] for body in peer.bodies] == [11, 12]
    assert reply.completion_tokens == 3


def test_logprobs_and_token_ids(peer, teacher, ask, make_client, made):
    body = made.completion("ab", prompt_token_ids=[1, 2, 3])
    body["choices"][0] |= {"token_ids": [7, 8], "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1.5}]}}
    peer.script(made.reply(body))
    (reply,) = make_client().complete_all(teacher(), ask(1))
    assert (reply.prompt_token_ids, reply.completion_token_ids, reply.logprobs) == ((1, 2, 3), (7, 8), (-0.5, -1.5))


def test_a_lone_surrogate_cannot_be_sent(peer, teacher, ask, make_client):
    request = ask(1)[0]
    bad = type(request)(messages=({"role": "user", "content": "\ud83c"},), item_id="bad")
    (failure,) = make_client().complete_all(teacher(), [bad])
    assert failure.cause is Cause.UNSENDABLE
    assert peer.bodies == []


def test_accounts_of_a_batch(peer, teacher, ask, make_client, made):
    peer.script(made.reply(made.completion()), made.reply({}, 400))
    requests = ask(2)
    results = make_client().complete_all(teacher(parallel=1, prompt_price=1.0, completion_price=2.0), requests)
    rows = accounts(requests, results)
    assert [(row.status, row.prompt_tokens, row.completion_tokens) for row in rows] == [
        ("ok", 5, 3),
        ("rejected", 0, 0),
    ]
    assert rows[0].cost_usd == pytest.approx((5 * 1 + 3 * 2) / 1e6)


def test_the_lane_widens_and_is_bounded(peer, teacher, ask, make_client, made):
    async def slow(request: web.Request, number: int) -> web.StreamResponse:
        await asyncio.sleep(0.02)
        return web.json_response(made.completion())

    peer.behave = slow
    make_client().complete_all(teacher(parallel=40), ask(300))
    assert 16 < peer.most_in_flight <= 40


def test_requests_per_minute(peer, teacher, ask, make_client):
    make_client().complete_all(teacher(rpm=600), ask(66))
    # A tenth of the minute's allowance may come at once, then ten a second.
    assert peer.times[-1] - peer.times[0] >= 0.45


def test_a_missing_key_is_the_users_mistake(teacher, ask, make_client):
    with pytest.raises(UserError, match="GRISTMILL_TEST_NO_SUCH_KEY"):
        make_client().complete_all(teacher(key_env="GRISTMILL_TEST_NO_SUCH_KEY"), ask(1))


def test_complete_from_another_loop(peer, teacher, ask, make_client):
    client = make_client()

    async def both() -> list[str]:
        first, second = await asyncio.gather(*(client.complete(teacher(), r) for r in ask(2)))
        return sorted([first.text, second.text])

    assert asyncio.run(both()) == ["answer 0", "answer 1"]


def test_progress_is_told(peer, teacher, ask, make_client):
    told: list[tuple[int, int]] = []
    make_client().complete_all(teacher(), ask(5), lambda done, total: told.append((done, total)))
    assert told == [(k, 5) for k in range(1, 6)]
