"""Which trajectories of a task were judged, and how: what operators over groups of samples start from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from schemas.rows import Verdict
from schemas.vocabulary import NO_JUDGEMENT, Trust, VerdictKind

if TYPE_CHECKING:
    from tasks.context import Context


class Judged(NamedTuple):
    """A trajectory of a task and whether it passed."""

    trajectory_id: str
    task_id: str
    passed: bool


def passed(verdicts: Sequence[Verdict]) -> bool | None:
    """Whether every verifier that reached a judgement said pass; None when none did.

    An infrastructure error judges nothing, nor does a model whose answer could not be read.
    """
    kinds = [
        verdict.kind
        for verdict in verdicts
        if verdict.kind not in NO_JUDGEMENT
        and not (verdict.kind is VerdictKind.UNPARSABLE and verdict.trust is Trust.MODEL)
    ]
    return all(kind is VerdictKind.PASS for kind in kinds) if kinds else None


def trusted(verdicts: Sequence[Verdict], *, inside: bool, model: bool) -> list[Verdict]:
    """The verdicts that count where rewards are learned from.

    inside, model: whether those reached beside the candidate's code, and a model's opinions, count too.
    """
    counts = {Trust.OUTSIDE: True, Trust.INSIDE: inside, Trust.MODEL: model}
    return [verdict for verdict in verdicts if counts[verdict.trust]]


def judged(ids: Sequence[str], ctx: "Context", *, inside: bool = True, model: bool = True) -> list[Judged]:
    """Those of the given trajectories that have a task and a judgement that counts (see `trusted`), in order."""
    rows = ctx.lake.sql(
        "select distinct id, task_id from trajectories where task_id is not null and id in (select id from ids)",
        ids=ids,
    ).to_pylist()
    tasks = {row["id"]: row["task_id"] for row in rows}
    verdicts = ctx.lake.verdicts(list(tasks))
    said = {ref: passed(trusted(verdicts[ref], inside=inside, model=model)) for ref in tasks}
    return [Judged(ref, tasks[ref], bool(said[ref])) for ref in ids if said.get(ref) is not None]
