"""One teacher's desk: takes a request through breaker, lane and budget until there is an answer or a failure."""

import asyncio
import random
import time
from collections.abc import Callable

import msgspec

from tasks.client.breaker import Breaker
from tasks.client.budget import Purse
from tasks.client.limits import Lane
from tasks.client.redact import redact
from tasks.client.request import (
    ENDPOINT_CAUSES,
    RETRIED_CAUSES,
    CallFailed,
    CallFailure,
    Cause,
    ModelReply,
    ModelRequest,
)
from tasks.client.teacher import AttemptFailed, Notes, Teacher

_BACKOFF_S, _BACKOFF_MAX_S = 0.5, 30.0

# The model itself gave something useless: the same seed would give it again.
_RESAMPLED = frozenset({Cause.WHITESPACE, Cause.NULL_CONTENT, Cause.EMPTY_CHOICES})


class _Trail:
    """What became of one call so far."""

    __slots__ = ("attempts", "completion_tokens", "first", "first_detail", "limited_since", "prompt_tokens")

    def __init__(self) -> None:
        self.attempts = self.prompt_tokens = self.completion_tokens = 0
        self.first: Cause | None = None
        self.first_detail = ""
        self.limited_since: float | None = None


class Desk:
    """Transport and settings of one teacher; lane and breaker are shared per endpoint and model."""

    def __init__(
        self, teacher: Teacher, lane: Lane, breaker: Breaker, purse: Purse, notes: Notes, say: Callable[[str], None]
    ) -> None:
        self.teacher, self.lane, self.breaker, self.purse, self._say = teacher, lane, breaker, purse, say
        self.endpoint, self.model, self.revision = teacher.endpoint(), teacher.model_id(), teacher.revision()
        self.extra, self.price, self.limits = dict(teacher.extra()), teacher.price(), teacher.limits()
        self.transport = teacher.open(notes)
        self._told: set[Cause] = set()

    async def paid(self, request: ModelRequest, key: str) -> ModelReply:
        """Sends until there is an answer or no attempt is left; raises CallFailed.

        A 429 uses up patience, never attempts: it says when to come back, not that the request is bad.
        """
        trail = _Trail()
        while True:
            outcome = await self._attempt(request, key, trail)
            if isinstance(outcome, ModelReply):
                return outcome
            cause = outcome.cause
            if trail.first is None:
                trail.first, trail.first_detail = cause, outcome.detail
            if cause is Cause.RATE_LIMITED:
                self.breaker.undecided()
                now = time.monotonic()
                trail.limited_since = trail.limited_since or now
                if now - trail.limited_since < self.limits.patience_s:
                    continue
                raise CallFailed(self.failure(request, key, cause, trail, outcome.detail))
            self._watch(cause, outcome.detail)
            trail.attempts += 1
            if cause not in RETRIED_CAUSES or trail.attempts >= self.limits.attempts:
                raise CallFailed(self.failure(request, key, cause, trail, outcome.detail))
            pause = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** (trail.attempts - 1)) * random.uniform(0.5, 1.5)  # noqa: S311
            await asyncio.sleep(max(pause, outcome.retry_after or 0.0))

    def failure(
        self, request: ModelRequest, key: str, cause: Cause, trail: _Trail | None = None, detail: str = ""
    ) -> CallFailure:
        """The record of a failed call, its detail redacted."""
        trail = trail or _Trail()
        if trail.first is not None and trail.first is not cause:
            detail = f"{detail} (first: {trail.first_detail})"
        return CallFailure(
            item_id=request.item_id,
            endpoint=self.endpoint,
            model=self.model,
            cause=cause,
            first_cause=trail.first or cause,
            detail=redact(detail)[:1000],
            attempts=trail.attempts,
            key=key,
            prompt_tokens=trail.prompt_tokens,
            completion_tokens=trail.completion_tokens,
            cost_usd=self.price.cost(trail.prompt_tokens, trail.completion_tokens),
        )

    async def _attempt(self, request: ModelRequest, key: str, trail: _Trail) -> ModelReply | AttemptFailed:
        lane, price = self.lane, self.price
        most_tokens = request.max_tokens or 0
        epoch = await lane.enter(most_tokens)
        limited, wait, sent = False, None, False
        prompt_tokens = completion_tokens = 0
        try:
            if not self.breaker.allows():
                raise CallFailed(self.failure(request, key, Cause.BREAKER_OPEN, trail, self.breaker.describe()))
            most_usd = price.cost(_prompt_ceiling(request) if price.prompt else 0, most_tokens)
            hold = await self.purse.reserve(most_usd, most_tokens)
            if hold is None:
                self.breaker.undecided()
                raise CallFailed(self.failure(request, key, Cause.BUDGET, trail, self.purse.describe()))
            if trail.first in _RESAMPLED and request.seed is not None:
                request = msgspec.structs.replace(request, seed=request.seed + trail.attempts)
            began = time.perf_counter()
            try:
                sent = True
                reply, headers = await self.transport.send(request)
                prompt_tokens, completion_tokens = reply.prompt_tokens, reply.completion_tokens
            except AttemptFailed as error:
                limited, wait = error.cause is Cause.RATE_LIMITED, error.retry_after
                prompt_tokens, completion_tokens = error.prompt_tokens, error.completion_tokens
                sent = error.cause is not Cause.UNSENDABLE
                return error
            finally:
                cost = price.cost(prompt_tokens, completion_tokens)
                self.purse.settle(hold, cost, prompt_tokens, completion_tokens, int(sent))
                trail.prompt_tokens += prompt_tokens
                trail.completion_tokens += completion_tokens
        finally:
            lane.leave(epoch, limited=limited, wait_s=wait)
        self.breaker.record(True)
        if headers:
            lane.note(headers)
        return msgspec.structs.replace(
            reply,
            key=key,
            endpoint=self.endpoint,
            model=reply.model or self.model,
            revision=reply.revision or self.revision,
            attempts=trail.attempts + 1,
            cost_usd=price.cost(trail.prompt_tokens, trail.completion_tokens),
            latency_s=reply.latency_s or time.perf_counter() - began,
        )

    def _watch(self, cause: Cause, detail: str) -> None:
        """Tells the breaker, and people the first time a cause shows up and when the breaker opens."""
        if cause not in self._told:
            self._told.add(cause)
            self._say(f"{self.lane.name}: first {cause}: {redact(detail)[:300]}")
        if self.breaker.record(cause not in ENDPOINT_CAUSES):
            self._say(f"{self.lane.name}: the circuit breaker opens, {self.breaker.describe()}")


def _prompt_ceiling(request: ModelRequest) -> int:
    """A ceiling on prompt tokens for the budget's worst case: half the bytes; real texts take a quarter."""
    return len(msgspec.json.encode(request.messages)) // 2 + len(request.tools_json or "") // 2
