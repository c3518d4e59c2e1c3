"""The runs of this process: what their batches share, how many of them run at once, and how a run ends.

A run that ends may have batches in flight and others that wait. None begins any more; those in flight are waited
for, since what they need (sandbox, model client) is closed afterwards: a program that ends because its sandbox does is
no wrong answer. Who cannot wait closes all the same, and then nothing that was in flight is committed.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from schemas.errors import Unavailable
from tasks.context import Context

_changed = threading.Condition()
_contexts: dict[str, Context] = {}
_in_flight: Counter[str] = Counter()
_ending: set[str] = set()
_closed: set[str] = set()
_rooms: dict[int, threading.BoundedSemaphore] = {}


def register(ctx: Context) -> None:
    """Makes `ctx` the context of its run in this process, so that batches share its client, sandbox and models."""
    with _changed:
        _ending.discard(ctx.run_id)
        _closed.discard(ctx.run_id)
        _contexts[ctx.run_id] = ctx


def forget(ctx: Context, patience_s: float | None = None) -> None:
    """Ends a run in this process: no batch of it begins any more, and its context is closed.

    patience_s: how long batches in flight are waited for; None for as long as they take.
    """
    until = None if patience_s is None else time.monotonic() + patience_s
    with _changed:
        _ending.add(ctx.run_id)
        while _in_flight[ctx.run_id] and (until is None or time.monotonic() < until):
            # Not without an end: a signal's handler runs in between.
            _changed.wait(0.5)
        _closed.add(ctx.run_id)
        _contexts.pop(ctx.run_id, None)
    ctx.close()


def context_of(run_id: str, make: Callable[[], Context]) -> Context:
    """The context of a run; `make` makes it where the run began in another process.

    Unavailable when the run's context was closed in this one: another would never be.
    """
    with _changed:
        commit_on(run_id)
        if run_id not in _contexts:
            _contexts[run_id] = make()
        return _contexts[run_id]


def room(at_once: int | None) -> AbstractContextManager[object]:
    """What lets in as many batches as this process may run at once of operators with this limit."""
    if at_once is None:
        return nullcontext()
    with _changed:
        return _rooms.setdefault(at_once, threading.BoundedSemaphore(at_once))


@contextmanager
def in_flight(run_id: str) -> Iterator[None]:
    """Marks a batch of a run as begun. Unavailable when the run has ended."""
    with _changed:
        go_on(run_id)
        _in_flight[run_id] += 1
    try:
        yield
    finally:
        with _changed:
            _in_flight[run_id] -= 1
            if not _in_flight[run_id]:
                del _in_flight[run_id]
            _changed.notify_all()


def go_on(run_id: str) -> None:
    """Unavailable when the run is ending: nothing new is begun for it."""
    if run_id in _ending:
        raise Unavailable("run_ended", f"run {run_id} has ended; its open batches are left to the next run")


def commit_on(run_id: str) -> None:
    """Unavailable when what the run's batches need was closed under them: what they found means nothing."""
    if run_id in _closed:
        raise Unavailable("run_ended", f"run {run_id} was ended while this batch ran; the next run decides it")
