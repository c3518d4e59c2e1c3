"""The durable record of executed judgements: a candidate that was judged is not executed again.

    cache = JudgementCache.for_lake(lake)
    known = cache.get(key)                    # bytes, or None
    counts = cache.record(key, data)          # the one that counts: the first recorded under this key

A key is a hash of everything that decides the judgement; what the data means is its writer's matter. A commit is
whole or not there at all, so a kill costs one judgement and never leaves half of one. Losing the file costs time only.
"""

import re

from schemas.errors import FaultError
from warehouse.lake import Lake
from warehouse.sidecar import Sidecar, sidecar

_KEY = re.compile(r"[0-9a-f]{16,128}")


class JudgementCache:
    """See the module's docstring. One per process and lake; safe for threads and for several processes."""

    def __init__(self, store: Sidecar) -> None:
        self._store = store

    @classmethod
    def for_lake(cls, lake: Lake) -> "JudgementCache":
        """The record of a lake: `judgements.sqlite` in its folder, or a table beside its Postgres catalog."""
        blob = "BYTEA" if lake.where.postgres else "BLOB"
        schema = (f"CREATE TABLE IF NOT EXISTS judgements (key VARCHAR PRIMARY KEY, data {blob} NOT NULL)",)
        # A judgement can be made again: the newest few may be lost to a power cut, and no fsync is waited for.
        return cls(sidecar(lake.where, "judgements", schema, "NORMAL"))

    def get(self, key: str) -> bytes | None:
        """What is recorded under `key`, or None."""
        rows = self._store.read("SELECT data FROM judgements WHERE key = ?", (_checked(key),))
        return bytes(rows[0][0]) if rows else None

    def record(self, key: str, data: bytes) -> bytes:
        """Records `data` and gives what counts under `key`: the first that was recorded."""
        with self._store.transaction() as cursor:
            cursor.run("INSERT INTO judgements VALUES (?, ?) ON CONFLICT (key) DO NOTHING", (_checked(key), data))
            return bytes(cursor.run("SELECT data FROM judgements WHERE key = ?", (key,))[0][0])

    def forget(self, key: str) -> None:
        """Removes what is recorded under `key`, so that it is judged again."""
        with self._store.transaction() as cursor:
            cursor.run("DELETE FROM judgements WHERE key = ?", (_checked(key),))

    def close(self) -> None:
        """Closes the connection."""
        self._store.close()


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise FaultError(f"a judgement's key is a hash in hex digits, not {key[:12]!r}…")
    return key
