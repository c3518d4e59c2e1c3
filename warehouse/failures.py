"""What DuckDB's errors mean for us: try again, a full disk, an unreachable catalog, or a damaged lake."""

import duckdb

from schemas.errors import GristmillError, LakeError, Unavailable

_LOST = (
    "failed to commit",
    "database is locked",
    "transaction conflict",
    "could not serialize access",
    "deadlock detected",
    "database table is locked",
)
_FULL = ("no space left on device", "database or disk is full", "disk quota exceeded", "file too large")
_AWAY = (
    "could not connect",
    "connection refused",
    "server closed the connection",
    "connection to server",
    "unable to connect",
)


def retryable(error: duckdb.Error) -> bool:
    """Whether the same transaction may succeed when it is tried again as a whole."""
    text = str(error).lower()
    return any(sign in text for sign in _LOST) and not any(sign in text for sign in _FULL)


def translated(error: duckdb.Error, address: str) -> GristmillError:
    """The error of ours that a DuckDB error stands for."""
    text = str(error)
    low = text.lower()
    if any(sign in low for sign in _FULL):
        return Unavailable("disk_full", f"{address}: {text}; nothing was written, free some space and run again")
    if any(sign in low for sign in _AWAY):
        return Unavailable("catalog_unreachable", f"{address}: {text}")
    if retryable(error):
        return LakeError(f"{address}: the commit was lost to other writers again and again: {text}")
    return LakeError(f"{address}: {text}")
