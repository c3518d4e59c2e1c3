"""Headers become seconds; the lane's width follows what the endpoint says."""

import asyncio

import pytest

from tasks.client.limits import Lane, duration, exhausted_for, retry_after
from tasks.client.teacher import Limits


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2", 2.0), ("1.5", 1.5), ("250ms", 0.25), ("1m30s", 90.0), ("6m0s", 360.0), ("2h", 7200.0), ("-3", 0.0),
     ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0), ("1970-01-01T00:02:00Z", 20.0), ("soon", None), ("", None)],
)  # fmt: skip
def test_durations(text, seconds):
    assert duration(text, now=100.0) == seconds


def test_headers():
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert retry_after({}) is None
    left = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"}
    assert exhausted_for(left) == 2.0
    assert exhausted_for({**left, "x-ratelimit-remaining-tokens": "5"}) == 0.0


def test_one_burst_halves_once_and_then_it_grows_by_one_a_round():
    async def run() -> None:
        said: list[str] = []
        lane = Lane("x", Limits(parallel=64), said.append)
        for _ in range(2):  # two rounds without trouble: 16, 32, 64
            for epoch in [await lane.enter(1) for _ in range(int(lane.width))]:
                lane.leave(epoch, limited=False)
        assert lane.width == 64
        for epoch in [await lane.enter(1) for _ in range(64)]:
            lane.leave(epoch, limited=True, wait_s=0.0)
        assert lane.width == 32
        assert len(said) == 1
        for epoch in [await lane.enter(1) for _ in range(32)]:
            lane.leave(epoch, limited=False)
        assert lane.width == 33

    asyncio.run(run())


def test_waiting_calls_are_let_in_one_by_one_and_none_is_forgotten():
    async def run() -> None:
        lane, inside, most = Lane("x", Limits(parallel=3, adaptive=False)), 0, 0

        async def one() -> None:
            nonlocal inside, most
            epoch = await lane.enter(1)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1
            lane.leave(epoch, limited=False)

        tasks = [asyncio.ensure_future(one()) for _ in range(50)]
        await asyncio.sleep(0.002)
        for task in tasks[10:20]:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert (most, lane.in_flight) == (3, 0)

    asyncio.run(run())


def test_tokens_per_minute_pace_the_lane():
    async def run() -> float:
        lane, loop = Lane("x", Limits(parallel=8, tpm=6000)), asyncio.get_running_loop()
        started = loop.time()
        for _ in range(8):  # 600 at once, then 100 a second
            lane.leave(await lane.enter(80), limited=False)
        return loop.time() - started

    assert asyncio.run(run()) >= 0.35
