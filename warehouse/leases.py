# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""Leases: who works on which batch, so that the same recipe started twice at once does its work once.

A lease on (stage, operator fingerprint, batch key) has a fencing token and an expiry; a heartbeat thread
extends it while its process lives. After SIGKILL another process on the same machine takes it over at once, and
one elsewhere when it has expired.
`check` runs inside the append: whoever lost the lease in the meantime writes nothing.
"""

import threading
import time
from types import TracebackType
from typing import NamedTuple

from schemas.errors import LeaseLost, Unavailable
from warehouse.address import Address
from warehouse.owner import is_dead, this_process
from warehouse.sidecar import Cursor, Sidecar, sidecar

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS leases (stage VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL, batch VARCHAR NOT NULL,"
    " token BIGINT NOT NULL, owner VARCHAR NOT NULL, expires_at DOUBLE PRECISION NOT NULL,"
    " PRIMARY KEY (stage, fingerprint, batch))",
    "CREATE TABLE IF NOT EXISTS lease_tokens (name VARCHAR PRIMARY KEY, value BIGINT NOT NULL)",
    "INSERT INTO lease_tokens VALUES ('next', 0) ON CONFLICT (name) DO NOTHING",
)
_WHERE = "stage = ? AND fingerprint = ? AND batch = ?"


class LeaseKey(NamedTuple):
    """What a lease is on."""

    stage: str
    fingerprint: str
    batch: str


class Lease:
    """A held lease. token: grows with every acquisition in the lake, so that a stale holder is told apart."""

    def __init__(self, leases: "Leases", key: LeaseKey, token: int, ttl_s: float, until: float) -> None:
        self.key, self.token, self.ttl_s = key, token, ttl_s
        self._leases, self._until = leases, until
        self._lost = False

    def alive(self) -> bool:
        """Whether it is held as far as this process knows; asks nobody."""
        return not self._lost and time.monotonic() < self._until

    def check(self) -> None:
        """Extends the lease in the database; LeaseLost when somebody else took it over."""
        if self._lost or not self._leases.extend(self):
            self._lost = True
            raise LeaseLost(f"the lease on {self.key.stage} {self.key.batch} was taken over; nothing was written")

    def release(self) -> None:
        """Gives it back; a lease already lost is left alone."""
        self._leases.give_back(self)

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Leases:
    """The leases of one lake, for one process."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._owner = this_process()
        self._lock = threading.Lock()
        self._store: Sidecar | None = None
        self._held: dict[LeaseKey, Lease] = {}
        self._wake = threading.Condition(self._lock)
        self._heart: threading.Thread | None = None
        self._closed = False

    def acquire(self, stage: str, fingerprint: str, batch_key: str, ttl_s: float = 60.0) -> Lease | None:
        """The lease, or None while another holder's has not expired (also another thread's of this process)."""
        key = LeaseKey(stage, fingerprint, batch_key)
        store = self._open()
        started = time.monotonic()
        with store.transaction() as cursor:
            now = self._now(cursor, store)
            # Locks the row against a second acquirer in Postgres; in SQLite the transaction is exclusive anyway.
            token = int(
                cursor.run("UPDATE lease_tokens SET value = value + 1 WHERE name = 'next' RETURNING value")[0][0]
            )
            rows = cursor.run(f"SELECT expires_at, owner FROM leases WHERE {_WHERE}", key)
            if rows and float(rows[0][0]) > now and not is_dead(rows[0][1]):
                return None
            cursor.run(
                "INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (stage, fingerprint, batch) "
                "DO UPDATE SET token = excluded.token, owner = excluded.owner, expires_at = excluded.expires_at",
                (*key, token, self._owner, now + ttl_s),
            )
        lease = Lease(self, key, token, ttl_s, started + ttl_s)
        with self._lock:
            self._held[key] = lease
            self._wake.notify()
            if self._heart is None:
                self._heart = threading.Thread(target=self._beat, name="lease-heartbeat", daemon=True)
                self._heart.start()
        return lease

    def extend(self, lease: Lease) -> bool:
        """Moves the expiry to now + ttl if the token is still the newest; whether it was."""
        store = self._open()
        started = time.monotonic()
        with store.transaction() as cursor:
            now = self._now(cursor, store)
            cursor.run(
                f"UPDATE leases SET expires_at = ? WHERE {_WHERE} AND token = ?",
                (now + lease.ttl_s, *lease.key, lease.token),
            )
            held = cursor.count() == 1
        if held:
            lease._until = started + lease.ttl_s
        return held

    def give_back(self, lease: Lease) -> None:
        """Deletes the lease if it is still ours."""
        with self._lock:
            if self._held.get(lease.key) is lease:
                del self._held[lease.key]
        lease._lost = True
        with self._open().transaction() as cursor:
            cursor.run(f"DELETE FROM leases WHERE {_WHERE} AND token = ?", (*lease.key, lease.token))

    def active(self) -> int:
        """How many unexpired leases the whole lake has, of all processes."""
        store = self._open()
        with store.transaction() as cursor:
            now = self._now(cursor, store)
            owners = cursor.run("SELECT owner FROM leases WHERE expires_at > ?", (now,))
        return sum(not is_dead(owner) for (owner,) in owners)

    def close(self) -> None:
        """Ends the heartbeat; leases still held expire by themselves."""
        with self._lock:
            self._closed = True
            self._wake.notify()
        if self._heart is not None and self._heart is not threading.current_thread():
            self._heart.join()
        if self._store is not None:
            self._store.close()

    def _open(self) -> Sidecar:
        with self._lock:
            if self._store is None:
                self._store = sidecar(self._address, "leases", _SCHEMA, synchronous="NORMAL")
            return self._store

    @staticmethod
    def _now(cursor: Cursor, store: Sidecar) -> float:
        """Seconds since the epoch by one clock: the server's where there is one, since machines' clocks differ."""
        if store.dialect == "postgres":
            return float(cursor.run("SELECT extract(epoch FROM clock_timestamp())")[0][0])
        return time.time()

    def _beat(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                pause = min((lease.ttl_s for lease in self._held.values()), default=60.0) / 3
                self._wake.wait(pause)
                if self._closed:
                    return
                due = [lease for lease in self._held.values() if lease._until - time.monotonic() < lease.ttl_s * 0.7]
            for lease in due:
                try:
                    held = self.extend(lease)
                except Unavailable:
                    # Tried again at the next beat; if the lease expires first, `check` says so before any write.
                    continue
                if not held:
                    with self._lock:
                        if self._held.get(lease.key) is lease:
                            del self._held[lease.key]
                    lease._lost = True
