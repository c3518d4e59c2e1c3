"""The request cache: an answer is durable once recorded, and no key is paid for twice."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import FaultError, LakeError, Unavailable
from schemas.ids import digest
from warehouse.lake import Lake
from warehouse.requests import Answer, Claimed, Held, RequestCache

KEYS = [digest(str(number)) for number in range(300)]
SCRIPT = Path(__file__).with_name("writer.py")


@pytest.fixture
def cache(lake: Lake) -> Iterator[RequestCache]:
    made = RequestCache.for_lake(lake)
    yield made
    made.close()


def test_claim_record_and_find_again(lake: Lake, cache: RequestCache) -> None:
    async def work() -> None:
        key = KEYS[0]
        assert await cache.claim(key) == Claimed(key)
        assert isinstance(await cache.claim(key), Held)
        assert await cache.record(key, b"answer\x00") == b"answer\x00"
        assert await cache.claim(key) == Answer(b"answer\x00")

    asyncio.run(work())
    other = RequestCache.for_lake(lake)
    assert other.get(KEYS[0]) == b"answer\x00"
    assert other.get(KEYS[1]) is None
    assert other.count() == 1
    other.close()


def test_a_failed_call_frees_its_key(cache: RequestCache) -> None:
    assert cache.claim_many(KEYS[:2]) == {key: Claimed(key) for key in KEYS[:2]}
    cache.release_many(KEYS[:1])
    found = cache.claim_many(KEYS[:2])
    assert found[KEYS[0]] == Claimed(KEYS[0])
    assert isinstance(found[KEYS[1]], Held)
    assert cache.count() == 0


def test_the_first_recorded_answer_counts_for_all(lake: Lake, cache: RequestCache) -> None:
    other = RequestCache.for_lake(lake)
    assert cache.record_many({KEYS[0]: b"first"}) == {KEYS[0]: b"first"}
    assert other.record_many({KEYS[0]: b"second", KEYS[1]: b"new"}) == {KEYS[0]: b"first", KEYS[1]: b"new"}
    assert cache.get_many(KEYS[:3]) == {KEYS[0]: b"first", KEYS[1]: b"new"}
    other.close()


def test_waiting_for_another_gives_its_answer_or_its_claim(lake: Lake, cache: RequestCache) -> None:
    other = RequestCache.for_lake(lake)

    async def work() -> None:
        assert await other.claim(KEYS[0]) == Claimed(KEYS[0])
        assert await other.claim(KEYS[1]) == Claimed(KEYS[1])
        answered = asyncio.create_task(cache.wait(KEYS[0]))
        freed = asyncio.create_task(cache.wait(KEYS[1]))
        await asyncio.sleep(0.1)
        await other.record(KEYS[0], b"x")
        await other.release(KEYS[1])
        assert await answered == Answer(b"x")
        assert await freed == Claimed(KEYS[1])

    asyncio.run(work())
    other.close()


def test_a_claim_lives_while_its_process_does_and_expires_otherwise(lake: Lake) -> None:
    holder, other = RequestCache.for_lake(lake, ttl_s=0.6), RequestCache.for_lake(lake)
    assert isinstance(holder.claim_many(KEYS[:1])[KEYS[0]], Claimed)
    time.sleep(1.2)
    assert isinstance(other.claim_many(KEYS[:1])[KEYS[0]], Held)
    # A process elsewhere that died: its owner is unknown here, so only the expiry frees the key.
    with holder._store.transaction() as cursor:
        cursor.run("UPDATE request_claims SET owner = 'elsewhere'")
    time.sleep(0.7)
    assert isinstance(other.claim_many(KEYS[:1])[KEYS[0]], Claimed)
    holder.close()
    other.close()


def test_a_killed_process_frees_its_claims_at_once(lake: Lake, cache: RequestCache) -> None:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "claim", lake.address, KEYS[0]], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert [process.stdout.readline().split() for _ in range(2)] == [["open"], ["claim", "Claimed"]]
        assert isinstance(cache.claim_many(KEYS[:1])[KEYS[0]], Held)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert isinstance(cache.claim_many(KEYS[:1])[KEYS[0]], Claimed)


def test_closing_frees_what_was_claimed_and_keeps_what_was_recorded(lake: Lake) -> None:
    first = RequestCache.for_lake(lake)
    first.claim_many(KEYS[:2])
    first.record_many({KEYS[0]: b"x"})
    first.close()
    first.close()
    with pytest.raises(LakeError, match="closed"):
        first.claim_many(KEYS[:1])
    second = RequestCache.for_lake(lake)
    assert second.claim_many(KEYS[:2]) == {KEYS[0]: Answer(b"x"), KEYS[1]: Claimed(KEYS[1])}
    second.close()


def test_only_hashes_are_keys(cache: RequestCache) -> None:
    with pytest.raises(FaultError, match="a request key is a hash"):
        cache.claim_many(["https://example.org/?key=marked"])


def test_many_calls_share_few_commits(cache: RequestCache) -> None:
    commits = 0
    inner = cache._store.transaction

    def counted() -> object:
        nonlocal commits
        commits += 1
        return inner()

    cache._store.transaction = counted  # type: ignore[method-assign, assignment]

    async def call(key: str) -> None:
        assert isinstance(await cache.claim(key), Claimed)
        assert await cache.record(key, key.encode() * 50) == key.encode() * 50

    async def work() -> None:
        await asyncio.gather(*map(call, KEYS))

    asyncio.run(work())
    assert cache.count() == len(KEYS)
    assert commits < len(KEYS) / 5


def test_a_cancelled_caller_disturbs_nobody(cache: RequestCache) -> None:
    async def work() -> None:
        tasks = [asyncio.create_task(cache.record(key, b"x")) for key in KEYS[:50]]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(answer == b"x" for answer in done[1::2])

    asyncio.run(work())


def test_a_broken_store_is_an_error_for_every_caller_and_heals(cache: RequestCache) -> None:
    inner = cache._store.transaction

    def broken() -> object:
        raise Unavailable("disk_full", "no room")

    cache._store.transaction = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(Unavailable, match="disk_full"):
        cache.record_many({KEYS[0]: b"x"})
    cache._store.transaction = inner  # type: ignore[method-assign]
    assert cache.record_many({KEYS[0]: b"x"}) == {KEYS[0]: b"x"}
