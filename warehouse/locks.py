"""The writer lock: one append, migration or maintenance step at a time per lake.

DuckLake enforces no uniqueness, and two processes that check and then insert both succeed; under this lock
the check and the insert are one. It also keeps commits from colliding. It costs the time of a commit (tens of
milliseconds) for work that took seconds. Both kinds of lock end with their process, also after SIGKILL:
a local lake uses flock on a file, a shared one a Postgres advisory lock.
"""

import fcntl
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from schemas.errors import LakeError, MissingExtra, Unavailable
from warehouse.address import Address

# How long a writer waits for its turn, seconds: longer than any maintenance step should take.
PATIENCE_S = 900.0

# The lock's file in the folder of a local lake.
LOCK = "writer.lock"


class WriterLock(Protocol):
    """Held for one write; not re-entrant."""

    @contextmanager
    def held(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """Waits for the lock, holds it for the block; LakeError when it stays taken for `patience_s` seconds."""
        yield

    def close(self) -> None:
        """Ends what is kept open between two writes."""


class FileLock:
    """flock on a file; the holder's process id is written into it, for the message of those who wait too long."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = threading.Lock()

    @contextmanager
    def held(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """See WriterLock."""
        deadline = time.monotonic() + patience_s
        if not self._threads.acquire(timeout=patience_s):
            raise LakeError(f"another thread of this process holds {self.path} for over {patience_s:.0f} s")
        try:
            try:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise Unavailable(
                    "not_writable", f"{self.path}: {error.strerror}; the lake can only be read"
                ) from error
            try:
                self._wait(handle, deadline, patience_s)
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
                yield
            finally:
                os.close(handle)
        finally:
            self._threads.release()

    def close(self) -> None:
        """See WriterLock: the file is open while the lock is held, no longer."""

    def _wait(self, handle: int, deadline: float, patience_s: float) -> None:
        pause = 0.001
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = os.pread(handle, 64, 0).decode(errors="replace").strip() or "unknown"
                    raise LakeError(
                        f"process {holder} holds the writer lock {self.path} for over {patience_s:.0f} s; "
                        "look whether it hangs"
                    ) from None
                time.sleep(pause * (0.5 + random.random()))  # noqa: S311 - jitter
                pause = min(pause * 1.5, 0.02)


class AdvisoryLock:
    """A Postgres session lock on its own connection."""

    # One fixed key; every lake has its own catalog database.
    _KEY = 0x67726973746D6C

    def __init__(self, url: str) -> None:
        self.url = url
        self._threads = threading.Lock()
        self._con: Any = None

    @contextmanager
    def held(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """See WriterLock."""
        if not self._threads.acquire(timeout=patience_s):
            raise LakeError(f"another thread of this process holds the writer lock for over {patience_s:.0f} s")
        try:
            con = self._connection()
            con.execute("SELECT set_config('lock_timeout', %s, false)", (str(int(patience_s * 1000)),))
            try:
                con.execute("SELECT pg_advisory_lock(%s)", (self._KEY,))
            except Exception as error:
                self._con = None
                con.close()
                raise LakeError(f"the writer lock was not free within {patience_s:.0f} s: {error}") from error
            try:
                yield
            finally:
                try:
                    con.execute("SELECT pg_advisory_unlock(%s)", (self._KEY,))
                except Exception:
                    # A broken session has lost the lock already; the next use connects anew.
                    self._con = None
        finally:
            self._threads.release()

    def close(self) -> None:
        """See WriterLock; ends the session."""
        with self._threads:
            if self._con is not None:
                self._con.close()
                self._con = None

    def _connection(self) -> Any:
        if self._con is not None and not self._con.closed and not self._con.broken:
            return self._con
        self._con = postgres(self.url)
        return self._con


def postgres(url: str) -> Any:
    """An autocommitting psycopg connection to a catalog; Unavailable when the server cannot be reached."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("psycopg", "postgres") from None
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=20)
    except psycopg.OperationalError as error:
        raise Unavailable("catalog_unreachable", f"{url}: {error}") from error


def writer_lock(address: Address) -> WriterLock:
    """The lock of a lake; whoever asks for it closes it."""
    if address.postgres:
        return AdvisoryLock(address.postgres)
    return FileLock(address.folder / LOCK)


@contextmanager
def locked(address: Address, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """The lock of a lake, for one block alone."""
    with closing(writer_lock(address)) as lock, lock.held(patience_s):
        yield
