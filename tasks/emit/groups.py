"""Task groups for RL: which rollouts a task has, what its verifier said of them, and the group's statistics.

Only first-hand rollouts count. A refined or branched trajectory stands for its root: a repaired answer says
nothing about how often the policy solves the task.
"""

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

from schemas.rows import Verdict
from schemas.vocabulary import Trust, VerdictKind
from tasks.context import Context
from tasks.emit.facts import JUDGED
from tasks.judged import trusted


class Group(NamedTuple):
    """Statistics of one task: n judged rollouts, c of them passed, the mean reward, verdicts set aside: those reached
    beside the candidate's code, and those that are a model's opinion.
    """

    n: int
    c: int
    mean_reward: float | None
    n_inside: int
    n_model: int = 0


def roots_by_task(ctx: Context, trajectories: Sequence[str]) -> dict[str, list[str]]:
    """First-hand rollouts by task id: every given trajectory, or the ancestor without a parent trajectory."""
    seen: set[str] = set()
    roots: dict[str, set[str]] = {}
    frontier = sorted(set(trajectories))
    while frontier:
        seen.update(frontier)
        rows = ctx.lake.sql(
            "select id, task_id, parents from trajectories where id in (select id from ids)", ids=frontier
        ).to_pylist()
        above = {parent for row in rows for parent in row["parents"] or ()}
        known = _existing(ctx, sorted(above))
        frontier = []
        for row in rows:
            parents = [parent for parent in row["parents"] or () if parent in known]
            frontier.extend(parent for parent in parents if parent not in seen)
            if not parents and row["task_id"]:
                roots.setdefault(row["task_id"], set()).add(row["id"])
        frontier = sorted(set(frontier))
    return {task: sorted(ids) for task, ids in roots.items()}


def _existing(ctx: Context, ids: Sequence[str]) -> frozenset[str]:
    if not ids:
        return frozenset()
    rows = ctx.lake.sql("select id from trajectories where id in (select id from ids)", ids=list(ids)).to_pylist()
    return frozenset(row["id"] for row in rows)


def group_of(verdicts: Sequence[Verdict], verifier: str, *, inside: bool, model: bool = False) -> Group:
    """The statistics over one verdict per rollout: those of the task's own verifier that have a reward.

    inside, model: whether verdicts reached beside the candidate's code, and a model's opinions, count.
    """
    by_rollout = {v.trajectory_id: v for v in verdicts if v.verifier == verifier and v.kind in JUDGED}
    judged = [v for v in by_rollout.values() if v.reward is not None]
    taken = trusted(judged, inside=inside, model=model)
    rewards = [v.reward for v in taken if v.reward is not None]
    return Group(
        n=len(taken),
        c=sum(v.kind is VerdictKind.PASS for v in taken),
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
        n_inside=sum(v.trust is Trust.INSIDE and not inside for v in judged),
        n_model=sum(v.trust is Trust.MODEL and not model for v in judged),
    )


def pass_at(k: int, n: int, c: int) -> float | None:
    """The unbiased pass@k = 1 - C(n-c, k) / C(n, k); None when fewer than k rollouts were judged."""
    return None if n < k or k < 1 else 1.0 - comb(n - c, k) / comb(n, k)


def curriculum_key(n: int, c: int) -> float:
    """How hard the task is for this policy, 0 to 1, ascending from easy: 1 minus the pass rate with one success
    and one failure added, so that small groups do not jump to the ends."""
    return 1.0 - (c + 1) / (n + 2)
