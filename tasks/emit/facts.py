"""What the lake knows about the rows to be written, limited to what this recipe's own operators said.

Two recipes may judge or label the same trajectory differently; a shard follows its own recipe. A recipe without
any entries (an export by name whose recipe is not at hand) takes everything that the lake holds.
"""

from collections.abc import Sequence

from schemas.ids import content_id
from schemas.rows import StepLabel, Verdict
from schemas.vocabulary import NO_JUDGEMENT, Stage, VerdictKind
from tasks.context import Context
from tasks.emit.manifest import Lineage
from tasks.judged import trusted
from tasks.recipe import entries, operator_of

# Verdicts that say something about the answer; an infrastructure error or a dispute says nothing.
JUDGED = frozenset(VerdictKind) - NO_JUDGEMENT

_UPSTREAM = tuple(stage for stage in Stage if stage not in (Stage.EMIT, Stage.TRAIN))


def lineage(ctx: Context) -> Lineage:
    """The recipe's name and every operator before emit; what cannot change a row (budget, folders) is left out."""
    operators = tuple(
        {"stage": stage.value, "use": operator.plugin_id(), "fingerprint": operator.fingerprint(ctx)}
        for stage in _UPSTREAM
        for operator in (operator_of(ctx.recipe, stage, index) for index in range(len(entries(ctx.recipe, stage))))
    )
    return Lineage(
        recipe=ctx.recipe.name,
        recipe_fingerprint=content_id("recipe", ctx.recipe.name, ctx.recipe.seed, operators),
        operators=operators,
    )


def fingerprints(ctx: Context, stage: Stage) -> tuple[str, ...] | None:
    """The fingerprints of the recipe's operators of one stage; None when the recipe has no entries at all."""
    if not any(entries(ctx.recipe, each) for each in _UPSTREAM):
        return None
    return tuple(operator_of(ctx.recipe, stage, i).fingerprint(ctx) for i in range(len(entries(ctx.recipe, stage))))


def side_rows(ctx: Context, table: str, stage: Stage, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Ids of this recipe's rows in `verdicts` or `step_labels`, sorted, by trajectory id."""
    own = fingerprints(ctx, stage)
    if (own is not None and not own) or not ids:
        return {}
    where = "" if own is None else f" and fingerprint in ({', '.join('?' * len(own))})"
    rows = ctx.lake.sql(
        f"select distinct trajectory_id, id from {table} "  # noqa: S608 - a table of ours and question marks
        f"where trajectory_id in (select id from ids){where}",
        ids=list(ids),
        params=list(own or ()),
    ).to_pylist()
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["trajectory_id"], []).append(row["id"])
    return {key: tuple(sorted(value)) for key, value in found.items()}


def verdicts_of(ctx: Context, ids: Sequence[str]) -> dict[str, list[Verdict]]:
    """This recipe's verdicts by trajectory id, sorted by id."""
    known = ctx.lake.verdicts(ids, fingerprints(ctx, Stage.VERIFY))
    return {key: sorted(found, key=lambda verdict: verdict.id) for key, found in known.items()}


def labels_of(ctx: Context, ids: Sequence[str]) -> dict[str, list[StepLabel]]:
    """This recipe's step labels by trajectory id, sorted by id."""
    known = ctx.lake.labels(ids, fingerprints(ctx, Stage.LABEL))
    return {key: sorted(found, key=lambda label: label.id) for key, found in known.items()}


def reward_of(verdicts: Sequence[Verdict], *, inside: bool, model: bool) -> float | None:
    """The reward of a trajectory: the lowest that a verifier gave, so that one failed check is a failure.

    inside, model: which verdicts count besides those reached outside of the candidate (see `tasks.judged.trusted`).
    """
    counted = trusted(verdicts, inside=inside, model=model)
    rewards = [verdict.reward for verdict in counted if verdict.reward is not None and verdict.kind in JUDGED]
    return min(rewards) if rewards else None
