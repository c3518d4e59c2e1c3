"""Jails prepared ahead, so that a candidate does not wait for one to start. Each is used by one candidate only.

One thread starts them and lives as long as the pool, because a jail ends with the thread that started it. A jail
waits in the state in which its runner asks for a request; nothing untrusted has been in it. It is ended when nobody
took it for a while, when a jail of another shape is wanted in its place, and with the pool.
"""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable

from tasks.sandbox.jail import Jail, Launch, Slot
from tasks.sandbox.shape import Shape

_IDLE_S = 3.0


class _Entry:
    """One jail that was asked for: `begun` once its start has begun, `done` once it is ready (or failed: no jail)."""

    def __init__(self, shape: Shape, slot: Slot) -> None:
        self.shape, self.slot = shape, slot
        self.begun = False
        self.done = threading.Event()
        self.jail: Jail | None = None
        self.since = time.monotonic()


class Pool:
    """At most `size` jails that wait. `launch` says how one is started; `slots` is where their slots come from."""

    def __init__(
        self, size: int, launch: Callable[[Slot, Shape], Launch], slots: "queue.SimpleQueue[Slot]", idle_s: float = 0.0
    ) -> None:
        self._size, self._launch, self._slots = size, launch, slots
        self._idle_s = idle_s or _IDLE_S
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: list[_Entry] = []
        self._orders: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def want(self, shape: Shape) -> None:
        """Has a jail of this shape prepared, where there is room for one."""
        if not self._size:
            return
        with self._lock:
            if self._closed:
                return
            other = None
            if len(self._waiting) >= self._size:
                other = next((each for each in self._waiting if each.shape != shape and each.done.is_set()), None)
                if other is None:
                    return
                self._waiting.remove(other)
        if other is not None:
            self._end(other)
        with self._lock:
            if self._closed or len(self._waiting) >= self._size:
                return
            try:
                slot = self._slots.get_nowait()
            except queue.Empty:
                return
            entry = _Entry(shape, slot)
            self._waiting.append(entry)
            self._order(entry)

    def take(self, shape: Shape) -> Jail | None:
        """A jail of this shape that is ready, or nearly; None when there is none. It is the caller's to end."""
        while True:
            with self._lock:
                fitting = [entry for entry in self._waiting if entry.shape == shape and entry.begun]
                if not fitting:
                    return None
                entry = next((each for each in fitting if each.done.is_set()), fitting[0])
                self._waiting.remove(entry)
            entry.done.wait()
            jail = entry.jail
            if jail is not None and jail.alive:
                return jail
            self._end(entry)

    def start(self, shape: Shape, slot: Slot) -> Jail | None:
        """A jail that does not end with the calling thread, started now; None when it did not start."""
        entry = _Entry(shape, slot)
        with self._lock:
            self._order(entry)
        entry.done.wait()
        if entry.jail is not None and not entry.jail.alive:
            entry.jail.end()
            return None
        return entry.jail

    def close(self) -> None:
        """Ends every jail that waits, and the thread."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            left, self._waiting = self._waiting, []
        for entry in left:
            entry.done.wait()
            self._end(entry)
        thread = self._thread
        if thread is not None:
            self._orders.put(None)
            if thread is not threading.current_thread():
                thread.join(10.0)
            self._thread = None

    def _order(self, entry: _Entry) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="sandbox-pool", daemon=True)
            self._thread.start()
        self._orders.put(entry)

    def _work(self) -> None:
        while True:
            try:
                entry = self._orders.get(timeout=self._idle_s / 2)
            except queue.Empty:
                self._end_idle()
                continue
            if entry is None:
                return
            entry.begun = True
            jail = Jail(entry.slot, self._launch(entry.slot, entry.shape))
            entry.jail = jail
            # One that could not start is ended by whoever takes it, who starts another and sees why.
            with contextlib.suppress(OSError):
                jail.start()
            entry.since = time.monotonic()
            entry.done.set()

    def _end_idle(self) -> None:
        before = time.monotonic() - self._idle_s
        with self._lock:
            old = [entry for entry in self._waiting if entry.done.is_set() and entry.since < before]
            self._waiting = [entry for entry in self._waiting if entry not in old]
        for entry in old:
            self._end(entry)

    def _end(self, entry: _Entry) -> None:
        if entry.jail is not None:
            entry.jail.end()
        self._slots.put(entry.slot)
