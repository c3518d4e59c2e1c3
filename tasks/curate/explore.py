"""What other thresholds would drop: counts, and the least similar pairs that would go, for a person to judge.

Nothing is written; signatures and embeddings that the lake already has are read, so that trying another threshold
costs no model and no second look at known texts.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from schemas.errors import UserError
from tasks.curate.base import SetSelector
from tasks.curate.view import View, view_text

if TYPE_CHECKING:
    from tasks.context import Context

# Signs shown of a text, and how many of them stand before the first difference of two.
_SHOWN, _BEFORE = 400, 80


class DroppedPair(NamedTuple):
    """A trajectory that would go, the one that would stay, their similarity, both texts around their first difference.

    Where something was left out before or behind, a text has a …
    """

    dropped: str
    kept: str
    score: float
    dropped_text: str
    kept_text: str


class Level(NamedTuple):
    """One threshold: how many of `n` would go, and the least similar pairs among them, the least similar first."""

    threshold: float
    n: int
    dropped: int
    pairs: list[DroppedPair]


def explore(
    ctx: "Context", selector: SetSelector, refs: Sequence[str], thresholds: Sequence[float], shown: int = 3
) -> list[Level]:
    """What the selector (near_duplicate, semantic, containment) would do at each threshold, lowest first."""
    if not {"threshold", "view"} <= set(selector.__struct_fields__):
        raise UserError(
            f"The selector '{selector.plugin_id()}' has no threshold to explore.",
            "These have: containment, near_duplicate, semantic.",
        )
    view: View = getattr(selector, "view", "whole")
    levels = []
    for threshold in sorted(thresholds):
        choices = msgspec.structs.replace(selector, threshold=threshold).choose(refs, ctx).choices
        gone = sorted(
            (choice.score or 0.0, ref, str(choice.evidence["kept"]))
            for ref, choice in zip(refs, choices, strict=True)
            if not choice.keep
        )
        least = gone[:shown]
        wanted = sorted({key for _, *pair in least for key in pair})
        texts = {t.id: view_text(t, view) for t in ctx.lake.trajectories(wanted)}
        pairs = [DroppedPair(ref, kept, score, *_around(texts[ref], texts[kept])) for score, ref, kept in least]
        levels.append(Level(threshold, len(refs), len(gone), pairs))
    return levels


def common_lead(one: str, other: str) -> int:
    """How many signs two texts share from their beginning on."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _around(one: str, other: str) -> tuple[str, str]:
    """Both texts from a little before their first difference on."""
    same = common_lead(one, other)
    start = max(0, same - _BEFORE) if same < max(len(one), len(other)) else 0
    first, second = (
        f"{'…' if start else ''}{text[start : start + _SHOWN]}{'…' if len(text) > start + _SHOWN else ''}"
        for text in (one, other)
    )
    return first, second


class SourceLoss(NamedTuple):
    """How many of a data set's trajectories an operator dropped, and the commonest reason."""

    dataset: str
    operator: str
    n: int
    dropped: int
    reason: str

    @property
    def share(self) -> float:
        """The share that was dropped, from 0 to 1."""
        return self.dropped / self.n if self.n else 0.0


def source_losses(ctx: "Context", fingerprints: Sequence[str], most: float) -> list[SourceLoss]:
    """The data sets of which one of these operators dropped more than the share `most`, the worst first.

    A trajectory made here counts under its teacher. For an alarm after a run, and for a report.
    """
    rows = ctx.lake.sql(
        """
        with newest as (
            select distinct on (fingerprint, item_id) fingerprint, item_id, operator, decision, reason, parents
            from decisions where stage = 'curate' and fingerprint in (select id from ids)
            order by fingerprint, item_id, created_at desc
        ), source as (
            select distinct on (id) id, coalesce(provenance.dataset, policy.teacher, policy.model, '') as dataset
            from trajectories
        )
        select s.dataset, d.operator, d.decision, d.reason, count(*) as n
        from newest d join source s on s.id = coalesce(d.parents[1], d.item_id)
        group by all order by all
        """,
        ids=list(fingerprints),
    ).to_pylist()
    totals: Counter[tuple[str, str]] = Counter()
    drops: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        key = row["dataset"], row["operator"]
        totals[key] += row["n"]
        if row["decision"] == "drop":
            drops.setdefault(key, Counter())[row["reason"]] += row["n"]
    found = [
        SourceLoss(*key, totals[key], sum(reasons.values()), min(reasons, key=lambda one: (-reasons[one], one)))
        for key, reasons in drops.items()
    ]
    return sorted((one for one in found if one.share > most), key=lambda one: (-one.share, one.dataset, one.operator))
