"""The one model client of a process: every call goes through `complete`, whoever the teacher is.

    client = ModelClient.for_lake(lake, recipe.budget)
    results = client.complete_all(teacher, requests)      # from a thread: ModelReply or CallFailure, in order
    client.run(rollout(client))                            # many coroutines that `await client.complete(...)`
    client.close()

A call is keyed, claimed and recorded in the durable request cache, so that an answer is paid once, whatever is
killed when. On the way out it passes the breaker, its lane (concurrency and pace of the endpoint) and the budget.
All of it lives on one event loop in a thread of its own, so that one connection pool serves every caller.
"""

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from schemas.errors import FaultError
from schemas.recipe import Budget
from schemas.rows import Request
from tasks.client.breaker import Breaker
from tasks.client.budget import Purse
from tasks.client.desk import Desk
from tasks.client.limits import Lane
from tasks.client.redact import redact_exact, secrets
from tasks.client.request import CallFailed, CallFailure, Cause, ModelReply, ModelRequest
from tasks.client.teacher import Teacher
from warehouse.lake import Lake
from warehouse.requests import Answer as Recorded
from warehouse.requests import Held, RequestCache

T = TypeVar("T")

_log = logging.getLogger("gristmill.client")
_encode_reply = msgspec.msgpack.Encoder().encode
_decode_reply = msgspec.msgpack.Decoder(ModelReply).decode
_replace = msgspec.structs.replace

_FAILURES_KEPT = 10_000


class ModelClient:
    """See the module's docstring. Safe for threads; `counters` says what this run did."""

    def __init__(self, cache: RequestCache, budget: Budget, say: Callable[[str], None] = _log.warning) -> None:
        self.cache, self.purse, self._say = cache, Purse(budget), say
        self.failures: list[CallFailure] = []
        self._counts: Counter[str] = Counter()
        self._desks: dict[tuple[str, bytes], Desk] = {}
        self._desks_by_object: dict[int, Desk] = {}
        self._teachers: list[Teacher] = []
        self._roads: dict[tuple[str, str], tuple[Lane, Breaker]] = {}
        self._flying: dict[str, asyncio.Future[ModelReply]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-client", daemon=True)
        self._thread.start()

    @classmethod
    def for_lake(cls, lake: Lake, budget: Budget, say: Callable[[str], None] = _log.warning) -> "ModelClient":
        """The client that records answers beside `lake` and spends at most `budget`."""
        return cls(RequestCache.for_lake(lake), budget, say)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the client's loop and waits for it; from any thread but the loop's own."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def complete_all(
        self, teacher: Teacher, requests: Sequence[ModelRequest], progress: Callable[[int, int], None] | None = None
    ) -> list[ModelReply | CallFailure]:
        """Every request's reply or failure, in order. progress: told (done, of how many) after each."""
        return self.run(self._complete_all(teacher, requests, progress))

    async def complete(self, teacher: Teacher, request: ModelRequest) -> ModelReply:
        """The recorded or the sampled answer; raises CallFailed. Awaitable on any loop."""
        if asyncio.get_running_loop() is not self._loop:
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(self._complete(teacher, request), self._loop)
            )
        return await self._complete(teacher, request)

    async def remember(self, key: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """What `make` gave the first time, recorded durably under `key` (hex digits); on the client's loop only.

        For what must stay the same in a rerun though it need not come out the same, such as a program's output.
        """
        found = await self.cache.wait(key)
        if isinstance(found, Recorded):
            return found.data
        try:
            data = await make()
        except BaseException:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self.cache.release(key))
            raise
        return await self.cache.record(key, redact_exact(data.decode("utf-8", "replace")).encode())

    def counters(self) -> dict[str, float]:
        """What this run did: real calls, cache hits, failures, tokens, US dollars."""
        counts = self._counts
        return {
            "calls": self.purse.calls,
            "answers": counts["answers"],
            "cached": counts["cached"],
            "failed": counts["failed"],
            "refused_by_budget": self.purse.refused,
            "prompt_tokens": self.purse.prompt_tokens,
            "completion_tokens": self.purse.tokens,
            "usd": round(self.purse.usd, 6),
        }

    def close(self) -> None:
        """Ends calls in flight, transports, the loop and the cache."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(timeout=60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.cache.close()

    async def _shut(self) -> None:
        flying = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)
        await asyncio.gather(*(desk.transport.close() for desk in self._desks.values()), return_exceptions=True)

    async def _complete_all(
        self, teacher: Teacher, requests: Sequence[ModelRequest], progress: Callable[[int, int], None] | None
    ) -> list[ModelReply | CallFailure]:
        results: list[ModelReply | CallFailure | None] = [None] * len(requests)
        todo = iter(range(len(requests)))
        done = 0

        async def work() -> None:
            nonlocal done
            for index in todo:
                try:
                    results[index] = await self._complete(teacher, requests[index])
                except CallFailed as failed:
                    results[index] = failed.failure
                done += 1
                if progress is not None:
                    progress(done, len(requests))

        await together(work() for _ in range(min(len(requests), max(1, teacher.limits().parallel))))
        return [result for result in results if result is not None]

    async def _complete(self, teacher: Teacher, request: ModelRequest) -> ModelReply:
        desk = self._desk(teacher)
        request = teacher.settle(request)
        try:
            key = request.key(desk.endpoint, desk.model, desk.revision, desk.extra)
        except (UnicodeEncodeError, TypeError) as error:
            raise self._note(desk.failure(request, "", Cause.UNSENDABLE, detail=str(error))) from None
        flying = self._flying.get(key)
        if flying is not None:
            try:
                reply = await asyncio.shield(flying)
            except CallFailed as failed:
                raise CallFailed(_replace(failed.failure, item_id=request.item_id)) from None
            self._counts["cached"] += 1
            return _replace(reply, cached=True)
        future = self._flying[key] = self._loop.create_future()
        try:
            reply = await self._recorded(desk, request, key)
            future.set_result(reply)
            return reply
        except BaseException as error:
            future.set_exception(error if isinstance(error, CallFailed) else asyncio.CancelledError())
            future.exception()  # nobody may be waiting; asyncio would complain about an exception never seen
            raise
        finally:
            del self._flying[key]

    async def _recorded(self, desk: Desk, request: ModelRequest, key: str) -> ModelReply:
        found = await self.cache.claim(key)
        if isinstance(found, Held):
            found = await self.cache.wait(key)
        if isinstance(found, Recorded):
            self._counts["cached"] += 1
            return _replace(self._decoded(found.data), cached=True)
        try:
            reply = await desk.paid(request, key)
            data = _encode_reply(reply)
            if any(value.encode() in data for value in secrets()):
                reply = _scrubbed(reply)
                data = _encode_reply(reply)
        except BaseException as error:
            # When this is cancelled the loop may be closing; claims of a process that ended are free anyway.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self.cache.release(key))
            raise self._note(error.failure) if isinstance(error, CallFailed) else error from None
        counts = await self.cache.record(key, data)
        self._counts["answers"] += 1
        return reply if counts == data else self._decoded(counts)

    def _note(self, failure: CallFailure) -> CallFailed:
        self._counts["failed"] += 1
        if len(self.failures) < _FAILURES_KEPT:
            self.failures.append(failure)
        return CallFailed(failure)

    def _desk(self, teacher: Teacher) -> Desk:
        known = self._desks_by_object.get(id(teacher))
        if known is not None:
            return known
        # Equal teachers share a desk; one with a dict among its options cannot be hashed as it is.
        slot = (type(teacher).__qualname__, msgspec.json.encode(teacher, order="deterministic"))
        if slot not in self._desks:
            self._desks[slot] = self._new_desk(teacher)
        # The desk may hold an equal teacher: this one is kept as well, lest its id be given to another object.
        self._teachers.append(teacher)
        self._desks_by_object[id(teacher)] = self._desks[slot]
        return self._desks[slot]

    def _new_desk(self, teacher: Teacher) -> Desk:
        road = (teacher.endpoint(), teacher.model_id())
        if road not in self._roads:
            self._roads[road] = (Lane(f"{road[0]} {road[1]}", teacher.limits(), self._say), Breaker())
        return Desk(teacher, *self._roads[road], self.purse, _CacheNotes(self.cache), self._say)

    @staticmethod
    def _decoded(data: bytes) -> ModelReply:
        try:
            return _decode_reply(data)
        except msgspec.MsgspecError as error:
            raise FaultError(f"a recorded answer cannot be read: {error}") from error


class _CacheNotes:
    """Notes kept in the request cache; used from the threads of engines."""

    def __init__(self, cache: RequestCache) -> None:
        self._cache = cache

    def get(self, key: str) -> bytes | None:
        """See Notes."""
        return self._cache.get(key)

    def record(self, key: str, data: bytes) -> bytes:
        """See Notes."""
        return self._cache.record_many({key: data})[key]


async def together(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs the jobs at once; the first exception ends the others and is raised as it is."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def accounts(requests: Sequence[ModelRequest], results: Sequence[ModelReply | CallFailure]) -> list[Request]:
    """Accounting rows of a batch, one per call; calls refused before they were sent have none."""
    rows = []
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, ModelReply):
            rows.append(result.account(request.item_id))
        elif result.attempts:
            rows.append(result.account())
    return rows


def _scrubbed(reply: ModelReply) -> ModelReply:
    """The reply with marked keys masked in every text that the endpoint sent."""
    return _replace(
        reply,
        text=redact_exact(reply.text),
        reasoning=None if reply.reasoning is None else redact_exact(reply.reasoning),
        refusal=None if reply.refusal is None else redact_exact(reply.refusal),
        raw_text=None if reply.raw_text is None else redact_exact(reply.raw_text),
        model=redact_exact(reply.model),
        engine=None if reply.engine is None else redact_exact(reply.engine),
        finish_reason=None if reply.finish_reason is None else redact_exact(reply.finish_reason),
        tool_calls=tuple(
            _replace(
                call,
                name=redact_exact(call.name),
                arguments=redact_exact(call.arguments),
                id=call.id and redact_exact(call.id),
            )
            for call in reply.tool_calls
        ),
    )
