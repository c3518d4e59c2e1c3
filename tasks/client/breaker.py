"""A circuit breaker over a window of recent attempts, one per endpoint and model.

It looks at a rate over the newest attempts, not at a total: 21 failures among 512 never open a breaker set to
one half, while an endpoint that died is left alone after a handful. Open, it refuses calls (their items stay
pending) until a pause is over; then one probe goes through and decides.
"""

import time
from collections import deque
from collections.abc import Callable


class Breaker:
    """window: attempts looked at. floor: failures needed at least. rate: share of failures (0 to 1) that opens it."""

    def __init__(
        self,
        *,
        window: int = 40,
        floor: int = 10,
        rate: float = 0.5,
        pause_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.window, self.floor, self.rate, self.pause_s = window, floor, rate, pause_s
        self._clock = clock
        self._recent: deque[bool] = deque(maxlen=window)
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False
        self.times_opened = 0

    @property
    def open(self) -> bool:
        """Whether calls are refused at the moment (a probe may still be let through)."""
        return self._opened_at is not None

    def allows(self) -> bool:
        """Whether a call may go out now. True on an open breaker makes that call the probe."""
        if self._opened_at is None:
            return True
        if not self._probing and self._clock() - self._opened_at >= self.pause_s:
            self._probing = True
            return True
        return False

    def record(self, ok: bool) -> bool:
        """Notes an attempt's end; True when this very attempt opened the breaker."""
        if self._opened_at is not None:
            if self._probing:
                self._probing = False
                if ok:
                    self._opened_at = None
                    self._recent.clear()
                    self._failures = 0
                else:
                    self._opened_at = self._clock()
            return False
        if len(self._recent) == self.window and not self._recent[0]:
            self._failures -= 1
        self._recent.append(ok)
        if ok:
            return False
        self._failures += 1
        if self._failures >= self.floor and self._failures >= self.rate * len(self._recent):
            self._opened_at = self._clock()
            self.times_opened += 1
            return True
        return False

    def undecided(self) -> None:
        """An attempt ended that says nothing about the endpoint's health (a 429): a probe may be tried again."""
        self._probing = False

    def describe(self) -> str:
        """The windowed rate, for people."""
        seen = len(self._recent)
        share = 100 * self._failures / seen if seen else 0.0
        return f"{self._failures} of the last {seen} attempts failed ({share:.0f} %, limit {100 * self.rate:.0f} %)"
