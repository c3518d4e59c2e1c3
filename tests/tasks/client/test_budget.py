"""The budget is never overspent and stops cleanly."""

import asyncio

from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.recipe import Budget
from tasks.client.budget import Purse
from tasks.client.request import CallFailure, Cause, ModelReply


def test_calls_stop_at_the_limit_and_the_rest_is_pending(peer, teacher, ask, make_client):
    client = make_client(calls=7)
    results = client.complete_all(teacher(), ask(20))
    assert sum(isinstance(r, ModelReply) for r in results) == 7
    rest = [r for r in results if isinstance(r, CallFailure)]
    assert {r.cause for r in rest} == {Cause.BUDGET}
    assert all(r.pending and r.attempts == 0 for r in rest)
    assert len(peer.bodies) == 7


def test_tokens_are_reserved_at_worst_and_settled_at_what_they_were(peer, teacher, ask, make_client):
    # Each call may take 10 tokens and takes 3: with 34, calls of 3 go on until 10 no longer fit.
    client = make_client(tokens=34)
    results = client.complete_all(teacher(parallel=4), ask(30, max_tokens=10))
    answered = sum(isinstance(r, ModelReply) for r in results)
    assert client.counters()["completion_tokens"] == 3 * answered <= 34
    assert answered == 9


def test_money(peer, teacher, ask, make_client):
    client = make_client(usd=0.001)
    results = client.complete_all(teacher(completion_price=20.0, prompt_price=1.0), ask(50, max_tokens=10))
    assert client.counters()["usd"] <= 0.001
    assert 0 < sum(isinstance(r, ModelReply) for r in results) < 50


def test_recorded_answers_cost_nothing(peer, teacher, ask, make_client):
    make_client().complete_all(teacher(), ask(5))
    assert all(isinstance(r, ModelReply) for r in make_client(calls=0).complete_all(teacher(), ask(5)))


def test_failed_attempts_count_as_calls(peer, teacher, ask, make_client, made):
    peer.script(made.reply({"choices": []}))
    client = make_client(calls=3)
    (failure,) = client.complete_all(teacher(attempts=9), ask(1))
    assert (failure.cause, failure.first_cause, failure.attempts) == (Cause.BUDGET, Cause.EMPTY_CHOICES, 3)
    assert len(peer.bodies) == 3


def test_a_call_that_does_not_fit_waits_for_those_in_flight(peer, teacher, ask, make_client, made):
    async def slow(request: web.Request, number: int) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.json_response(made.completion())

    peer.behave = slow
    results = make_client(tokens=16).complete_all(teacher(), ask(2, max_tokens=10))
    assert all(isinstance(r, ModelReply) for r in results)
    assert peer.most_in_flight == 1


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(0, 200),
    calls=st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), max_size=40),
)
def test_spent_and_reserved_never_exceed_the_limit(limit, calls):
    async def run() -> None:
        purse = Purse(Budget(tokens=limit))

        async def one(most: int, share: float) -> None:
            hold = await purse.reserve(0.0, most)
            if hold is None:
                return
            assert purse.tokens + purse._held_tokens <= limit
            await asyncio.sleep(0)
            purse.settle(hold, 0.0, 0, int(most * share), 1)
            assert purse.tokens <= limit

        await asyncio.wait_for(asyncio.gather(*(one(*call) for call in calls)), 10)
        assert purse._in_flight == 0

    asyncio.run(run())
