"""Judges a refined trajectory again with the verifiers that judged its parent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from schemas.rows import Verdict
from schemas.trajectory import Trajectory
from schemas.vocabulary import Kind

if TYPE_CHECKING:
    from tasks.context import Context


def reverify(trajectory: Trajectory, before: Sequence[Verdict], ctx: "Context") -> list[Verdict]:
    """One fresh verdict per verifier in `before`; empty where the parent has no task or no verdict.

    Raises Unavailable when a verifier could not reach a judgement.
    """
    if trajectory.task_id is None or not before:
        return []
    from tasks.verify.base import Verifier

    task = ctx.lake.tasks([trajectory.task_id])[0]
    verdicts = []
    for use in sorted({verdict.verifier for verdict in before}):
        verifier = ctx.build(Kind.VERIFIER, {"use": use})
        assert isinstance(verifier, Verifier)
        verdicts.append(verifier.check(task, trajectory, ctx))
    return verdicts
