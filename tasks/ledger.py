"""What the decisions ledger says of an operator's items, and how decisions are written into it.

A decision of scope item holds for good; one of a group or of the whole set holds for the ids it depended on,
which its scope hash names. Failures that may be retried never count as done.
"""

from collections.abc import Sequence
from typing import Any

from schemas.ids import canonical_json, content_id, scope_hash
from schemas.rows import Ruling
from schemas.vocabulary import Decision, Scope
from tasks.operator import Item, Operator, Outcome
from warehouse.lake import Lake


def scopes_of(operator: Operator, items: Sequence[Item], whole: str) -> dict[str, str]:
    """The scope hash of each item's decision: "" for scope item, else the hash of what it depends on."""
    if operator.scope is Scope.ITEM:
        return {item.id: "" for item in items}
    if operator.scope is Scope.SET:
        return {item.id: whole for item in items}
    groups: dict[str, list[str]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item.id)
    hashes = {group: scope_hash(ids) for group, ids in groups.items()}
    return {item.id: hashes[item.group] for item in items}


def rulings_of(lake: Lake, fingerprint: str, scopes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The decisions that hold for these items, by item id."""
    if not scopes:
        return {}
    columns = ("item_id", "scope_hash", "decision", "reason", "outputs")
    rows = lake.find("decisions", "item_id", list(scopes), columns, "fingerprint = ?", [fingerprint]).to_pylist()
    return {row["item_id"]: row for row in rows if row["scope_hash"] == scopes[row["item_id"]]}


def dead_of(lake: Lake, fingerprint: str, ids: Sequence[str], *, retryable: bool | None = None) -> dict[str, str]:
    """Dead letters of this operator by item id, with their reasons."""
    if not ids:
        return {}
    where, params = "fingerprint = ?", [fingerprint, *([retryable] if retryable is not None else [])]
    where += " and retry = ?" if retryable is not None else ""
    rows = lake.find("dead_letters", "item_id", ids, ("item_id", "reason"), where, params).to_pylist()
    return {row["item_id"]: row["reason"] for row in rows}


def to_rulings(
    operator: Operator, fingerprint: str, outcomes: Sequence[Outcome], todo: Sequence[Item], scopes: dict[str, str]
) -> list[Ruling]:
    """The ledger rows of a batch; a kept item becomes itself unless the operator says otherwise."""
    refs = {item.id: item.ref for item in todo}
    rows = []
    for outcome in outcomes:
        outputs = outcome.outputs
        if outputs is None:
            outputs = (refs[outcome.item_id],) if outcome.decision is Decision.KEEP else ()
        scope = scopes[outcome.item_id]
        rows.append(
            Ruling(
                id=content_id("ruling", fingerprint, outcome.item_id, scope),
                item_id=outcome.item_id,
                stage=operator.stage.value,
                decision=outcome.decision,
                reason=outcome.reason,
                scope_hash=scope,
                score=outcome.score,
                evidence_json=canonical_json(outcome.evidence),
                outputs=outputs,
                parents=(refs[outcome.item_id],),
            )
        )
    return rows
