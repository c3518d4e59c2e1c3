"""From many coroutines that each await one answer to an engine that wants them in large batches.

Requests that arrive while the engine works wait and make up the next batch; the first batch waits until no new
request has come for a moment. One thread drives the engine, so an engine needs no locks.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from schemas.errors import GristmillError, Unavailable
from tasks.client.request import Cause, ModelReply, ModelRequest
from tasks.client.teacher import Answer, AttemptFailed

_QUIET_S, _QUIET_MAX_S = 0.02, 0.5
_BATCH = 50_000

Deliver = Callable[[int, ModelReply | AttemptFailed], None]


class Engine(Protocol):
    """Samples batches on this machine."""

    def start(self) -> None:
        """Loads or launches it; called once, before the first batch. Raises a GristmillError."""
        ...

    def generate(self, requests: Sequence[ModelRequest], deliver: Deliver) -> None:
        """Delivers every request's reply or failure by index; raises AttemptFailed when the engine itself broke."""
        ...

    def close(self) -> None:
        """Ends it; may be called from another thread while a batch runs."""
        ...


class EngineTransport:
    """A Transport over an engine. Lives on the client's event loop."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._waiting: list[tuple[ModelRequest, asyncio.Future[ModelReply]]] = []
        self._arrived = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._started = False
        self._closed = threading.Event()

    async def send(self, request: ModelRequest) -> Answer:
        """See Transport."""
        if self._pump is None or self._pump.done():
            self._pump = asyncio.ensure_future(self._work())
        future: asyncio.Future[ModelReply] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        self._arrived.set()
        return Answer(await future, {})

    async def close(self) -> None:
        """See Transport."""
        self._closed.set()
        if self._pump is not None:
            self._pump.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self.engine.close)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closed.is_set():
            await self._arrived.wait()
            self._arrived.clear()
            await self._quiet()
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            if self._waiting:
                self._arrived.set()
            batch = [(request, future) for request, future in batch if not future.done()]
            if not batch:
                continue
            futures = [future for _, future in batch]
            error: BaseException | None = None
            try:
                await loop.run_in_executor(self._thread, self._run, [request for request, _ in batch], futures, loop)
            except (AttemptFailed, GristmillError) as failed:
                error = failed
            except asyncio.CancelledError:
                for future in futures:
                    future.cancel()
                raise
            except Exception as broken:
                error = AttemptFailed(Cause.ENGINE, f"{type(broken).__name__}: {broken}")
            # Deliveries were scheduled before this continuation; let them land first.
            await asyncio.sleep(0)
            for future in futures:
                if not future.done():
                    future.set_exception(error or AttemptFailed(Cause.ENGINE, "the engine gave no answer"))

    async def _quiet(self) -> None:
        """Waits until the burst of arrivals is over."""
        waited, seen = 0.0, -1
        while seen != len(self._waiting) < _BATCH and waited < _QUIET_MAX_S:
            seen = len(self._waiting)
            await asyncio.sleep(_QUIET_S)
            waited += _QUIET_S

    def _run(
        self,
        requests: list[ModelRequest],
        futures: "list[asyncio.Future[ModelReply]]",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """On the engine's thread."""
        if not self._started:
            try:
                self.engine.start()
            except (GristmillError, AttemptFailed):
                raise
            except Exception as error:
                raise Unavailable("engine", f"it does not start: {type(error).__name__}: {error}") from error
            self._started = True

        def land(index: int, outcome: ModelReply | AttemptFailed) -> None:
            future = futures[index]
            if future.done():
                return
            if isinstance(outcome, AttemptFailed):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        def deliver(index: int, outcome: ModelReply | AttemptFailed) -> None:
            loop.call_soon_threadsafe(land, index, outcome)

        self.engine.generate(requests, deliver)
