"""Identities: canonical JSON and blake2b-128 content hashes.

Run, time, latency, cost and host are never part of an id, so that a rerun finds its rows again; the sample
index is, so that eight samples with the same answer stay eight.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from schemas.trajectory import SCHEMA_VERSION, Trajectory

_VOLATILE = frozenset({"usage", "timestamp"})
# Made once: `json.dumps` makes one at every call that asks for more than its defaults.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys, no white space, no NaN; equal values give equal text."""
    return _encode(msgspec.to_builtins(value))


def digest(data: str | bytes) -> str:
    """blake2b-128 of the UTF-8 text or bytes, 32 hex digits; lone surrogates are hashed, not refused."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def content_id(kind: str, *parts: Any) -> str:
    """The id of a thing of `kind` made from `parts` (anything msgspec turns into JSON)."""
    return digest(canonical_json([kind, SCHEMA_VERSION, list(parts)]))


def scope_hash(ids: Sequence[str]) -> str:
    """The hash of a set of ids, whatever their order."""
    state = hashlib.blake2b(digest_size=16)
    for item in sorted(ids):
        state.update(item.encode())
        state.update(b"\n")
    return state.hexdigest()


def seed_for(seed: int, *parts: Any) -> int:
    """A 63-bit seed that depends on the recipe's seed and on ids, never on order or time."""
    return int(content_id("seed", seed, *parts)[:16], 16) >> 1


def trajectory_id(trajectory: Trajectory, fingerprint: str) -> str:
    """The content hash of a trajectory made by the operator with `fingerprint`."""
    steps = [
        {key: value for key, value in step.items() if key not in _VOLATILE}
        for step in msgspec.to_builtins(trajectory.steps)
    ]
    payload = {
        "steps": steps,
        "tools": trajectory.tool_sets,
        "outcome": msgspec.to_builtins(trajectory.outcome),
        "source": trajectory.source_id,
        "branch": trajectory.branch_point,
    }
    return content_id(
        "trajectory", trajectory.parents, fingerprint, trajectory.policy, trajectory.sample_index, payload
    )


def with_id(trajectory: Trajectory, fingerprint: str) -> Trajectory:
    """The same trajectory under its content id."""
    return msgspec.structs.replace(trajectory, id=trajectory_id(trajectory, fingerprint))
