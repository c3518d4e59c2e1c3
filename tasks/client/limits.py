"""How hard an endpoint is pressed: one lane per endpoint and model, whose width adapts to what it is told.

The width doubles per round until the first 429, then grows by one per round and is halved by each burst of 429
(additive increase, multiplicative decrease, as TCP does). Retry-After and rate-limit headers close the lane for
as long as they say, for every call in it, not only for the one that was refused. Requests and tokens per minute
are leaky buckets, so that a minute's allowance is spread and not spent in its first second.
"""

import asyncio
import email.utils
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from tasks.client.teacher import Limits

_START_WIDTH = 16.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

# (remaining, reset) header pairs that OpenAI-compatible endpoints send.
_REMAINING = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
)

# A header that names a time hours away is a misread or a quota, not a pace; the call's patience decides then.
_MAX_PAUSE_S = 900.0


def duration(text: str, now: float | None = None) -> float | None:
    """Seconds named by a header: "2", "1.5", "250ms", "1m30s", an HTTP date or an RFC 3339 time; None if none."""
    text = text.strip()
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    if text and _DURATION.sub("", text) == "":
        return sum(float(amount) * _UNIT_S[unit] for amount, unit in _DURATION.findall(text))
    moment: datetime | None = None
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - (time.time() if now is None else now))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks to wait, from retry-after-ms or Retry-After."""
    if (text := headers.get("retry-after-ms")) is not None and (value := duration(text)) is not None:
        return value / 1000.0
    text = headers.get("retry-after")
    return None if text is None else duration(text)


def exhausted_for(headers: Mapping[str, str]) -> float:
    """Seconds until the allowance named by rate-limit headers is back; 0 when some is left."""
    pause = 0.0
    for remaining, reset in _REMAINING:
        left = headers.get(remaining)
        if left is not None and left.strip() in ("0", "0.0"):
            pause = max(pause, duration(headers.get(reset, "1")) or 0.0)
    return pause


class _Bucket:
    """A leaky bucket: `per_minute` units, of which a tenth may come at once."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self.rate = per_minute / 60.0
        self.size = max(1.0, per_minute / 10.0)
        self._clock = clock
        self._level = self.size
        self._at = clock()

    def wait_for(self, amount: float) -> float:
        """Takes `amount` and returns 0, or takes nothing and returns the seconds until it may be tried again."""
        now = self._clock()
        self._level = min(self.size, self._level + (now - self._at) * self.rate)
        self._at = now
        # More than the bucket holds can never be saved up: it goes out of a full bucket and leaves a debt.
        needed = min(amount, self.size)
        if self._level >= needed:
            self._level -= amount
            return 0.0
        return (needed - self._level) / self.rate

    def put_back(self, amount: float) -> None:
        """Undoes a taking."""
        self._level += amount


class Lane:
    """The way to one endpoint and model. Lives on one event loop.

    say: told, in one line, whenever the width falls or the lane is closed for a while.
    """

    def __init__(
        self,
        name: str,
        limits: Limits,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.limits, self._say, self._clock = name, limits, say, clock
        self.ceiling = float(max(1, limits.parallel))
        self.width = min(_START_WIDTH, self.ceiling) if limits.adaptive else self.ceiling
        self.in_flight = 0
        self._doubling = True
        self._credit = 0.0
        self._epoch = 0
        self._closed_until = 0.0
        self._buckets = [
            (None if limits.rpm is None else _Bucket(limits.rpm, clock)),
            (None if limits.tpm is None else _Bucket(limits.tpm, clock)),
        ]
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self, tokens: int) -> int:
        """Waits for a place; `tokens` is what the call may take at most. Returns the epoch to leave with."""
        while True:
            pause = self._closed_until - self._clock()
            if pause <= 0:
                if self.in_flight < int(self.width):
                    pause = self._pace(tokens)
                    if pause <= 0:
                        self.in_flight += 1
                        return self._epoch
                else:
                    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.append(turn)
                    try:
                        await turn
                    except asyncio.CancelledError:
                        self._wake()
                        raise
                    continue
            await asyncio.sleep(pause)

    def leave(self, epoch: int, *, limited: bool, wait_s: float | None = None) -> None:
        """Gives the place back. limited: the endpoint answered 429; wait_s: how long it asked to wait."""
        self.in_flight -= 1
        if limited:
            self._narrow(epoch, wait_s)
        elif self.limits.adaptive and self.width < self.ceiling:
            self._credit += 1.0
            if self._credit >= self.width:
                self._credit = 0.0
                self.width = min(self.ceiling, self.width * 2 if self._doubling else self.width + 1)
        self._wake()

    def note(self, headers: Mapping[str, str]) -> None:
        """Closes the lane when the headers of a good answer say that nothing is left until a given time."""
        pause = exhausted_for(headers)
        if pause > 0:
            self._close(min(pause, _MAX_PAUSE_S), "its rate-limit headers say that nothing is left")

    def _narrow(self, epoch: int, wait_s: float | None) -> None:
        # One burst of 429 comes from one width: only the first of them halves it.
        if epoch == self._epoch:
            self._epoch += 1
            self._doubling = False
            self._credit = 0.0
            if self.limits.adaptive:
                self.width = max(1.0, self.width / 2)
            self._say(f"{self.name}: 429, now {int(self.width)} calls at once")
        pause = 1.0 if wait_s is None else wait_s
        self._close(min(pause, _MAX_PAUSE_S), "it asked to wait" if wait_s is not None else "429 without Retry-After")

    def _close(self, pause: float, why: str) -> None:
        until = self._clock() + pause
        if until > self._closed_until:
            if pause >= 1.0 and until - max(self._closed_until, self._clock()) >= 1.0:
                self._say(f"{self.name}: waiting {pause:.1f} s, {why}")
            self._closed_until = until

    def _pace(self, tokens: int) -> float:
        requests, spent = self._buckets
        if requests is not None and (pause := requests.wait_for(1)) > 0:
            return pause
        if spent is not None and (pause := spent.wait_for(tokens)) > 0:
            if requests is not None:
                requests.put_back(1)
            return pause
        return 0.0

    def _wake(self) -> None:
        free = int(self.width) - self.in_flight
        while free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1
