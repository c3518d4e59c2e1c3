"""Moves bytes between the trusted process and one jail, within bounds, until the jail is silent or over a bound."""

import os
import select
import time
from collections.abc import Callable

from tasks.sandbox.wire.protocol import Forged, Frames

TICK_S = 0.05
_CHUNK = 1 << 16


class Pump:
    """The pipes of one jail.

    sources: descriptors to read, by name (out, err, result); sink: where the request goes, closed after it;
    outer: a pidfd that tells when the jail is gone; cap: bytes kept of out and of err; close: closes a descriptor.
    last: tells the frame that ends this exchange with a jail that goes on (its sink stays open); None where the
    jail's own end is awaited.
    """

    def __init__(
        self,
        sources: dict[str, int],
        sink: int,
        outer: int,
        request: bytes,
        cap: int,
        frame_limit: int,
        close: Callable[[int], None],
        last: Callable[[tuple[bytes, bytes]], bool] | None = None,
    ) -> None:
        self._last, self._over = last, False
        self._names = {fd: name for name, fd in sources.items()}
        self._sink, self._outer, self._close, self._cap = sink, outer, close, cap
        self._pending = memoryview(request)
        self._cutter = Frames(frame_limit)
        self.frames: list[tuple[bytes, bytes]] = []
        self.caught = {"out": bytearray(), "err": bytearray()}
        self._poll = select.poll()
        for fd in self._names:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)
        os.set_blocking(sink, False)
        self._poll.register(sink, select.POLLOUT)
        self._poll.register(outer, select.POLLIN)

    def run(self, deadline: Callable[[bool], float], over: Callable[[], str] | None) -> str:
        """Returns "" when the jail ended by itself, else the bound that was passed.

        deadline: seconds allowed in all, given whether the code is loaded; over: the watchdog, asked every 50 ms
        for the bound that is passed ("" for none); None where the kernel bounds the sums.
        """
        bound = self._pump(deadline, over)
        if bound and bound != "forged":
            # What the runner said before that counts; it may lie behind a flood of output.
            for fd in [fd for fd, name in self._names.items() if name == "result"]:
                bound = self._take(fd) or bound
        return bound

    def _pump(self, deadline: Callable[[bool], float], over: Callable[[], str] | None) -> str:
        start = sampled = time.monotonic()
        gone = False
        while self._names:
            now = time.monotonic()
            left = deadline(len(self.frames) > 1) - (now - start)
            if left <= 0:
                return "wall"
            if over is not None and now - sampled >= TICK_S:
                sampled = now
                if bound := over():
                    return bound
            events = self._poll.poll(0 if gone else min(left, 1.0 if over is None else TICK_S) * 1000)
            if gone and not events:
                break
            for fd, _ in events:
                if fd == self._outer:
                    gone = True
                    self._poll.unregister(fd)
                elif fd == self._sink:
                    self._push()
                elif bound := self._take(fd):
                    return bound
            if self._over:
                return self._drain()
        return ""

    def _drain(self) -> str:
        """What was written before the last frame; nothing inside runs any more."""
        for fd, name in list(self._names.items()):
            while name != "result" and (data := pull(fd)):
                self.caught[name] += data
                if len(self.caught[name]) > self._cap:
                    return "output"
        return ""

    def _push(self) -> None:
        try:
            self._pending = self._pending[os.write(self._sink, self._pending[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._pending = self._pending[:0]
        if not self._pending:
            self._poll.unregister(self._sink)
            if self._last is None:
                self._close(self._sink)

    def _take(self, fd: int) -> str:
        data = pull(fd)
        name = self._names[fd]
        if not data:
            self._poll.unregister(fd)
            del self._names[fd]
        elif name == "result":
            try:
                fresh = self._cutter.feed(data)
            except Forged:
                return "forged"
            self.frames += fresh
            self._over = self._last is not None and any(map(self._last, fresh))
        else:
            self.caught[name] += data
            if len(self.caught[name]) > self._cap:
                del self.caught[name][self._cap :]
                return "output"
        return ""


def pull(fd: int, wait_s: float = 0.0) -> bytes:
    """What can be read now, or within `wait_s`; empty at the end."""
    if wait_s:
        os.set_blocking(fd, False)
        time.sleep(wait_s)
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return b""
