"""Keeps trajectories that a verifier passed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from schemas.rows import Verdict
from schemas.trajectory import Trajectory
from schemas.vocabulary import VerdictKind
from tasks.curate.base import Choice, Selector
from tasks.operator import Item

if TYPE_CHECKING:
    from tasks.context import Context


class Verified(Selector, frozen=True, kw_only=True):
    """Keeps trajectories that a verifier passed.

    Reasons of a drop: the kind of the verdict (fail, timeout, …), `low_reward`, or `unverified` without one.

    verifiers: the verifiers that count, empty for all of them.
    need: with several verdicts, whether `any` must pass or `all`.
    min_reward: the least reward of a passing verdict, from 0 to 1; a verdict without a reward meets it.
    """

    verifiers: tuple[str, ...] = ()
    need: Literal["any", "all"] = "all"
    min_reward: float = 0.0

    @property
    def leans_on_verdicts(self) -> bool:
        """Always."""
        return True

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """Keeps what passed."""
        counted = [v for v in verdicts if not self.verifiers or v.verifier in self.verifiers]
        if not counted:
            return Choice(False, "unverified", evidence={"verdicts": len(verdicts)})
        failing = sorted((v for v in counted if self._fault(v)), key=lambda v: (v.verifier, v.id))
        passing = len(counted) - len(failing)
        score = max((v.reward for v in counted if v.reward is not None), default=None)
        if (self.need == "any" and passing) or not failing:
            return Choice(True, "passed", score)
        first = failing[0]
        return Choice(False, self._fault(first), first.reward, {"verdict": first.id, "verifier": first.verifier})

    def _fault(self, verdict: Verdict) -> str:
        if verdict.kind is not VerdictKind.PASS:
            return verdict.kind.value
        return "low_reward" if verdict.reward is not None and verdict.reward < self.min_reward else ""
