"""One batch of one operator: lease, skip what is done, decide, commit. Safe to run twice, at once or again.

A batch travels as a `BatchRef`, so that it runs in a thread, another process or on another machine alike. The
ledger alone says what is done; two processes that run the same recipe take turns on the lease.
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import FaultError, LeaseLost, Unavailable
from schemas.ids import scope_hash
from schemas.recipe import Recipe
from schemas.trajectory import Base
from schemas.vocabulary import Stage
from tasks.context import Context
from tasks.ledger import dead_of, rulings_of, scopes_of, to_rulings
from tasks.operator import Item, Operator, Pending, Result
from tasks.recipe import operator_of
from tasks.running import commit_on, context_of, go_on, in_flight, room
from warehouse.lake import Lake, Stamp

# How long a batch waits for another process that holds its lease before it looks again, seconds.
_POLL_S = 0.5


class BatchRef(Base, frozen=True, kw_only=True):
    """A batch by reference: small, picklable, all that a worker in another process needs."""

    lake: str
    recipe: Recipe
    recipe_dir: str
    out: str
    run_id: str
    stage: Stage
    entry: int
    number: int
    scope_hash: str
    items: bytes


class BatchSummary(Base, frozen=True, kw_only=True):
    """What a batch did: items newly decided, already done, dead, pending, and why."""

    n: int = 0
    already: int = 0
    dead: int = 0
    pending: int = 0
    pending_reasons: dict[str, int] = {}
    reasons: dict[str, int] = {}
    faults: tuple[str, ...] = ()
    seconds: float = 0.0


def run_batch(ref: BatchRef) -> BatchSummary:
    """Decides what is still undecided of one batch and commits it; safe to run twice, at once or again.

    Unavailable: the run has ended in this process.
    """
    operator = operator_of(ref.recipe, ref.stage, ref.entry)
    with room(operator.at_once), in_flight(ref.run_id):
        return _run(ref, operator)


def _run(ref: BatchRef, operator: Operator) -> BatchSummary:
    started = time.monotonic()
    ctx = context_of(
        ref.run_id, lambda: Context(ref.recipe, Lake.open(ref.lake), ref.run_id, Path(ref.recipe_dir), Path(ref.out))
    )
    fingerprint = operator.fingerprint(ctx)
    items = msgspec.msgpack.decode(ref.items, type=tuple[Item, ...])
    scopes = scopes_of(operator, items, ref.scope_hash)
    key = scope_hash([item.id + scopes[item.id] for item in items])
    while True:
        lease = ctx.lake.leases.acquire(ref.stage.value, fingerprint, key)
        if lease is None:
            time.sleep(_POLL_S)
            go_on(ref.run_id)
            continue
        try:
            # Only who holds the lease decides about these items, so what is seen now stays so.
            done = rulings_of(ctx.lake, fingerprint, scopes)
            dead = dead_of(ctx.lake, fingerprint, [i.id for i in items if i.id not in done], retryable=False)
            todo = [item for item in items if item.id not in done and item.id not in dead]
            # What the ledger calls done may have been deleted outside the lake, as shards can; then it is made again.
            if not todo and operator.present(items, ctx):
                return BatchSummary(n=0, already=len(items), seconds=time.monotonic() - started)
            todo = todo or list(items)
            result, faults = _decide(operator, todo, ctx)
            commit_on(ref.run_id)
            rulings = to_rulings(operator, fingerprint, result.outcomes, todo, scopes)
            rows: dict[str, Sequence[Any]] = {**result.rows, "decisions": rulings, "dead_letters": result.dead}
            stamp = Stamp(ref.run_id, operator.plugin_id(), fingerprint)
            ctx.lake.append(stamp, {table: batch for table, batch in rows.items() if len(batch)}, lease)
        except LeaseLost:
            continue
        finally:
            lease.release()
        reasons = Counter(outcome.reason for outcome in result.outcomes)
        reasons.update(letter.reason for letter in result.dead)
        return BatchSummary(
            n=len(result.outcomes),
            already=len(items) - len(todo),
            dead=len(result.dead),
            pending=len(result.pending),
            pending_reasons=dict(Counter(pending.reason for pending in result.pending)),
            reasons=dict(reasons),
            faults=faults,
            seconds=time.monotonic() - started,
        )


def _decide(operator: Operator, todo: Sequence[Item], ctx: Context) -> tuple[Result, tuple[str, ...]]:
    """Runs the operator; trouble of the surroundings leaves the items pending, and a miscount is a fault."""
    try:
        result = operator.run(todo, ctx)
    except Unavailable as error:
        return Result(pending=tuple(Pending(item_id=item.id, reason=error.reason) for item in todo)), (str(error),)
    accounted = Counter(
        [
            *(outcome.item_id for outcome in result.outcomes),
            *(letter.item_id for letter in result.dead),
            *(pending.item_id for pending in result.pending),
        ]
    )
    expected = {item.id for item in todo}
    wrong = [key for key in expected if accounted[key] != 1] + [key for key in accounted if key not in expected]
    if wrong:
        raise FaultError(
            f"{operator.stage}/{operator.plugin_id()} decided {len(wrong)} of {len(todo)} items not exactly once, "
            f"such as {wrong[0]} ({accounted[wrong[0]]} times)"
        )
    return result, ()
