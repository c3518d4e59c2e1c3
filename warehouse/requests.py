"""The durable request cache: an answer recorded here is never paid for again.

    cache = RequestCache.for_lake(lake)
    found = await cache.claim(key)             # Claimed | Answer | Held
    match found:
        case Answer(data): ...                 # recorded earlier: use it, send nothing
        case Held(until): ...                  # another process (or task) is paying for it: `await cache.wait(key)`
        case Claimed():
            data = await send(...)
            data = await cache.record(key, data)   # durable (fsync) when it returns; gives the answer that counts
            # or, when the call failed: await cache.release(key)

A key is a hash of all that shapes the answer (hex digits); the answer is bytes, already redacted. Keys are
claimed before anything is sent, so that two processes never pay for one key; claims are kept alive by a
heartbeat, expire after `ttl_s`, and those of a killed process on this machine are free at once.

Group commit: every operation goes to one writer thread, which commits all that wait in one transaction and
then wakes their callers, so that thousands of calls per second share a few hundred fsyncs. The coroutine
methods may be awaited on any event loop; `*_sync` and `*_many` are for threads.
"""

import asyncio
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from schemas.errors import FaultError, GristmillError, LakeError
from warehouse.lake import Lake
from warehouse.owner import is_dead, this_process
from warehouse.sidecar import Cursor, Sidecar, sidecar

Read = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

_KEY = re.compile(r"[0-9a-f]{16,128}")
_CHUNK = 400
_POLL_S = 0.25


class Claimed(NamedTuple):
    """The key is ours: send the request, then `record` or `release`."""

    key: str


class Answer(NamedTuple):
    """The recorded answer."""

    data: bytes


class Held(NamedTuple):
    """Somebody else is at it. until: seconds since the epoch at which the claim expires unless renewed."""

    until: float


Found = Claimed | Answer | Held


class _Job(NamedTuple):
    """One operation under way. data: None for a claim, b"" never; done: called once with a result or an error."""

    kind: str
    key: str
    data: bytes
    done: Callable[[object, BaseException | None], None]


class RequestCache:
    """See the module's docstring. One per process and lake; safe for threads and event loops."""

    def __init__(self, store: Sidecar, reader: Sidecar, ttl_s: float = 60.0) -> None:
        self.ttl_s = ttl_s
        self.owner = this_process()
        self._store, self._reader = store, reader
        self._wake = threading.Condition()
        self._jobs: list[_Job] = []
        self._closed = False
        self._claims = 0
        self._writer = threading.Thread(target=self._write, name="request-cache", daemon=True)
        self._writer.start()

    @classmethod
    def for_lake(cls, lake: Lake, ttl_s: float = 60.0) -> "RequestCache":
        """The cache of a lake: `requests.sqlite` in its folder, or a table beside its Postgres catalog."""
        blob = "BYTEA" if lake.where.postgres else "BLOB"
        schema = (
            f"CREATE TABLE IF NOT EXISTS request_answers (key VARCHAR PRIMARY KEY, answer {blob} NOT NULL)",
            "CREATE TABLE IF NOT EXISTS request_claims (key VARCHAR PRIMARY KEY, owner VARCHAR NOT NULL,"
            " expires_at DOUBLE PRECISION NOT NULL)",
        )
        return cls(sidecar(lake.where, "requests", schema), sidecar(lake.where, "requests", schema), ttl_s)

    async def claim(self, key: str) -> Found:
        """Claims `key`, or says why not."""
        return await self._awaited("claim", key)  # type: ignore[return-value]

    async def record(self, key: str, answer: bytes) -> bytes:
        """Records the answer durably and gives the one that counts: the first that was recorded for this key."""
        return await self._awaited("record", key, answer)  # type: ignore[return-value]

    async def release(self, key: str) -> None:
        """Gives a claim back after a failed call; failures are never recorded."""
        await self._awaited("release", key)

    async def wait(self, key: str) -> Found:
        """Waits while another holds `key`; then its Answer, or Claimed when the other gave up or died."""
        while isinstance(found := await self.claim(key), Held):
            await asyncio.sleep(_POLL_S)
        return found

    def claim_many(self, keys: Sequence[str]) -> dict[str, Found]:
        """Claims each key, in one transaction."""
        return self._waited("claim", dict.fromkeys(keys, b""))  # type: ignore[return-value]

    def record_many(self, answers: Mapping[str, bytes]) -> dict[str, bytes]:
        """Records all answers durably; the ones that count, as `record`."""
        return self._waited("record", answers)  # type: ignore[return-value]

    def release_many(self, keys: Sequence[str]) -> None:
        """Gives claims back."""
        self._waited("release", dict.fromkeys(keys, b""))

    def get(self, key: str) -> bytes | None:
        """The recorded answer, or None; claims nothing."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The recorded answers of those keys that have one."""
        return _answers(self._reader.read, keys)

    def count(self) -> int:
        """How many answers are recorded."""
        return int(self._reader.read("SELECT count(*) FROM request_answers")[0][0])

    def close(self) -> None:
        """Writes what waits, frees the claims of this process, ends the writer."""
        with self._wake:
            if self._closed:
                return
            self._closed = True
            self._wake.notify()
        self._writer.join()
        with self._store.transaction() as cursor:
            cursor.run("DELETE FROM request_claims WHERE owner = ?", (self.owner,))
        self._store.close()
        self._reader.close()

    async def _awaited(self, kind: str, key: str, data: bytes = b"") -> object:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        self._submit([_Job(kind, key, data, _Waker(loop, future))])
        return await future

    def _waited(self, kind: str, entries: Mapping[str, bytes]) -> dict[str, object]:
        futures: dict[str, Future[object]] = {key: Future() for key in entries}
        self._submit([_Job(kind, key, entries[key], _settle(future)) for key, future in futures.items()])
        return {key: future.result() for key, future in futures.items()}

    def _submit(self, jobs: list[_Job]) -> None:
        for job in jobs:
            if not _KEY.fullmatch(job.key):
                raise FaultError(f"a request key is a hash in hex digits, not {job.key[:12]!r}…")
        with self._wake:
            if self._closed:
                raise LakeError("the request cache is closed")
            self._jobs.extend(jobs)
            self._wake.notify()

    def _write(self) -> None:
        """The writer thread: commits all waiting jobs at once, then wakes their callers."""
        beat = time.monotonic()
        while True:
            with self._wake:
                if not self._jobs and not self._closed:
                    self._wake.wait(self.ttl_s / 3)
                jobs, self._jobs = self._jobs, []
                if not jobs and self._closed:
                    return
            renew = time.monotonic() - beat >= self.ttl_s / 3
            if renew:
                beat = time.monotonic()
            if not jobs and not (renew and self._claims):
                continue
            results: list[object] = []
            error: BaseException | None = None
            try:
                with self._store.transaction() as cursor:
                    results = self._commit(cursor, jobs, renew)
            except GristmillError as cause:
                error = cause
            except Exception as cause:
                error = LakeError(f"the request cache failed: {cause}")
            _wake_all(jobs, results, error)

    def _commit(self, cursor: Cursor, jobs: list[_Job], renew: bool) -> list[object]:
        """Records first, then releases, then claims; the results in the order of the jobs."""
        now = time.time()
        if renew:
            cursor.run("UPDATE request_claims SET expires_at = ? WHERE owner = ?", (now + self.ttl_s, self.owner))
        by_kind: dict[str, list[_Job]] = defaultdict(list)
        for job in jobs:
            by_kind[job.kind].append(job)
        counts = self._record(cursor, by_kind["record"])
        done = [(job.key, self.owner) for kind in ("record", "release") for job in by_kind[kind]]
        if done:
            cursor.many("DELETE FROM request_claims WHERE key = ? AND owner = ?", done)
        found = self._claim(cursor, by_kind["claim"], now)
        self._claims += sum(isinstance(value, Claimed) for value in found) - len(done)
        claims = iter(found)
        return [
            counts[job.key] if job.kind == "record" else next(claims) if job.kind == "claim" else None for job in jobs
        ]

    def _record(self, cursor: Cursor, jobs: list[_Job]) -> dict[str, bytes]:
        if not jobs:
            return {}
        counts = _answers(cursor.run, [job.key for job in jobs])
        fresh: dict[str, bytes] = {}
        for job in jobs:
            if job.key not in counts:
                fresh[job.key] = counts[job.key] = job.data
        if fresh:
            # Another machine may commit the same key between the look and here (Postgres): its answer stays.
            cursor.many("INSERT INTO request_answers VALUES (?, ?) ON CONFLICT (key) DO NOTHING", list(fresh.items()))
        return counts

    def _claim(self, cursor: Cursor, jobs: list[_Job], now: float) -> list[Found]:
        if not jobs:
            return []
        keys = list(dict.fromkeys(job.key for job in jobs))
        known = _answers(cursor.run, keys)
        held = {
            key: (owner, until)
            for key, owner, until in _chunked(
                cursor.run, "SELECT key, owner, expires_at FROM request_claims WHERE key IN", keys
            )
        }
        free = [
            key
            for key in keys
            if key not in known and (key not in held or held[key][1] <= now or is_dead(held[key][0]))
        ]
        until = now + self.ttl_s
        won: set[str] = set()
        for key in free:
            # The condition repeats the look, for a second machine on the same Postgres.
            before = held.get(key, ("", 0.0))[0]
            cursor.run(
                "INSERT INTO request_claims VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET owner = excluded.owner,"
                " expires_at = excluded.expires_at WHERE request_claims.owner = ?",
                (key, self.owner, until, before),
            )
            if cursor.count() == 1:
                won.add(key)
        results: list[Found] = []
        for job in jobs:
            if job.key in known:
                results.append(Answer(known[job.key]))
            elif job.key in won:
                won.discard(job.key)
                results.append(Claimed(job.key))
            else:
                results.append(Held(max(until if job.key not in held else held[job.key][1], now)))
        return results


class _Waker:
    """Settles a future of an event loop; `_wake_all` groups them, one wake-up a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[object]") -> None:
        self.loop, self.future = loop, future

    def __call__(self, result: object, error: BaseException | None) -> None:
        """Runs on the loop."""
        if self.future.cancelled():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


def _settle(future: "Future[object]") -> Callable[[object, BaseException | None], None]:
    def done(result: object, error: BaseException | None) -> None:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    return done


def _wake_all(jobs: list[_Job], results: list[object], error: BaseException | None) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Waker, object]]] = defaultdict(list)
    for position, job in enumerate(jobs):
        result = None if error is not None else results[position]
        if isinstance(job.done, _Waker):
            loops[job.done.loop].append((job.done, result))
        else:
            job.done(result, error)
    for loop, entries in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_on_loop, entries, error)


def _on_loop(entries: list[tuple[_Waker, object]], error: BaseException | None) -> None:
    for waker, result in entries:
        waker(result, error)


def _chunked(read: Read, select: str, keys: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(keys), _CHUNK):
        part = keys[start : start + _CHUNK]
        yield from read(f"{select} ({', '.join('?' * len(part))})", part)


def _answers(read: Read, keys: Sequence[str]) -> dict[str, bytes]:
    rows = _chunked(read, "SELECT key, answer FROM request_answers WHERE key IN", keys)
    return {key: bytes(answer) for key, answer in rows}
