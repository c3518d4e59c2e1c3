"""The hard budget of one run: US dollars, generated tokens, calls. It stops cleanly and is never overspent.

A call reserves its worst case (its max_tokens) before it is sent and settles with what it really took. A call
that does not fit waits while others are in flight, since they may give back; when nothing is in flight it is
refused, and its item stays pending. So the sum of settled and reserved never exceeds the limit.
"""

import asyncio
from collections import deque

from schemas.recipe import Budget


class Hold:
    """One call's reservation."""

    __slots__ = ("tokens", "usd")

    def __init__(self, usd: float, tokens: int) -> None:
        self.usd, self.tokens = usd, tokens


class Purse:
    """What is spent and reserved. Lives on one event loop."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.usd = 0.0
        self.tokens = 0
        self.prompt_tokens = 0
        self.calls = 0
        self.refused = 0
        self._held_usd = 0.0
        self._held_tokens = 0
        self._in_flight = 0
        self._unlimited = budget.usd is None and budget.tokens is None and budget.calls is None
        self._waiting: deque[asyncio.Future[None]] = deque()

    def _fits(self, hold: Hold) -> bool:
        limit = self.budget
        return (
            (limit.calls is None or self.calls + self._in_flight < limit.calls)
            and (limit.tokens is None or self.tokens + self._held_tokens + hold.tokens <= limit.tokens)
            # A hair of slack: sums of decimal prices are not exact.
            and (limit.usd is None or self.usd + self._held_usd + hold.usd <= limit.usd + 1e-9)
        )

    async def reserve(self, usd: float, tokens: int) -> Hold | None:
        """A reservation, or None when the budget cannot carry the call any more."""
        hold = Hold(usd, tokens)
        while not (self._unlimited or self._fits(hold)):
            if self._in_flight == 0:
                self.refused += 1
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self._held_usd += hold.usd
        self._held_tokens += hold.tokens
        self._in_flight += 1
        return hold

    def settle(self, hold: Hold, usd: float, prompt_tokens: int, tokens: int, calls: int) -> None:
        """Replaces a reservation by what the attempt took; `tokens` are generated ones, `calls` 1 when it was sent."""
        self._held_usd -= hold.usd
        self._held_tokens -= hold.tokens
        self._in_flight -= 1
        self.usd += usd
        self.prompt_tokens += prompt_tokens
        self.tokens += tokens
        self.calls += calls
        # All waiters look again: a small call may fit where the first in line does not.
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def describe(self) -> str:
        """What is spent of what, for people."""
        limit = self.budget
        parts = [
            f"{self.calls} calls" + (f" of {limit.calls}" if limit.calls is not None else ""),
            f"{self.tokens} generated tokens" + (f" of {limit.tokens}" if limit.tokens is not None else ""),
            f"${self.usd:.4f}" + (f" of ${limit.usd:.4f}" if limit.usd is not None else ""),
        ]
        return ", ".join(parts) + (f"; {self.refused} calls refused" if self.refused else "")
