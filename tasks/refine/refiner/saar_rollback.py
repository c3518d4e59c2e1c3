"""Self-correction taken out: a failed call that a later call corrects is replaced by the correction.

    [[refine]]
    use = "saar_rollback"

After CLEANER's similarity-aware adaptive rollback. A trajectory that reaches its goal past failed calls teaches
the failures too. Here the failed step takes the place of the correcting step's action, everything between is cut,
and the shorter trajectory is replayed. How alike the two codes are decides how much is swapped: alike, the failed
step's reasoning fits the corrected action and stays; unlike, the reasoning comes with the correction.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from schemas.trajectory import Step, Trajectory, text_of, text_part
from schemas.vocabulary import Source
from tasks.calls import FENCE, PYTHON_TOOLS, CallOutcome, call_outcomes
from tasks.refine.base import GivenUp, Refined, Refiner
from tasks.refine.likeness import likeness
from tasks.refine.replay import Session, replay
from tasks.refine.steps import renumbered

if TYPE_CHECKING:
    from tasks.context import Context


class Swap(NamedTuple):
    """A failed call and the later one that corrects it."""

    failed: CallOutcome
    correction: CallOutcome
    similarity: float


class SaarRollback(Refiner, frozen=True, kw_only=True):
    """Replaces failed Python calls by their later corrections and replays what is kept.

    related: below this likeness of the two codes (0 to 1) a later success is another call, not a correction.
    alike: from this likeness on only the action is swapped; below it the reasoning is swapped too.
    attempts: how many further calls the correction may need.
    session: "script" when each call is a program of its own, "notebook" when calls share an interpreter.
    tools: names of tools whose argument is Python.
    """

    related: float = 0.4
    alike: float = 0.7
    attempts: int = 3
    session: Session = "script"
    tools: tuple[str, ...] = tuple(sorted(PYTHON_TOOLS))

    def __post_init__(self) -> None:
        if not 0 <= self.related <= self.alike <= 1:
            raise ValueError(f"needs 0 <= related <= alike <= 1, not related={self.related}, alike={self.alike}")

    def eligible(self, trajectory: Trajectory) -> bool:
        """Whether some failed Python call is corrected later, in a trajectory that links to no subagent's steps."""
        return not trajectory.subagents and bool(self.swaps(trajectory))

    def swaps(self, trajectory: Trajectory) -> list[Swap]:
        """The corrections to take, in order and without overlap."""
        calls = [c for c in call_outcomes(trajectory, frozenset(self.tools)) if c.code is not None]
        found: list[Swap] = []
        position = 0
        while position < len(calls):
            swap = self._correction(trajectory.steps, calls, position)
            if swap is None:
                position += 1
            else:
                found.append(swap)
                position = calls.index(swap.correction) + 1
        return found

    def _correction(self, steps: Sequence[Step], calls: Sequence[CallOutcome], position: int) -> Swap | None:
        """The first related success after the failed call at `position`, with only failures between."""
        failed = calls[position]
        if not failed.failed or not _alone(steps[failed.step]):
            return None
        for later in calls[position + 1 : position + 1 + self.attempts]:
            if later.failed is None or not _alone(steps[later.step]) or _form(later) != _form(failed):
                return None
            if later.failed:
                continue
            if any(step.source in (Source.USER, Source.SYSTEM) for step in steps[failed.step : later.step]):
                return None
            share = likeness(failed.code or "", later.code or "")
            return Swap(failed, later, share) if share >= self.related else None
        return None

    def refine(self, trajectory: Trajectory, ctx: "Context") -> Refined | GivenUp:
        """The trajectory with its corrections moved to where they were needed first, replayed."""
        swaps = self.swaps(trajectory)
        evidence = {
            "swaps": [
                {
                    "failed_step": swap.failed.step,
                    "corrected_by": swap.correction.step,
                    "similarity": round(swap.similarity, 4),
                    "swapped": "action" if swap.similarity >= self.alike else "action and reasoning",
                }
                for swap in swaps
            ]
        }
        made = self.rolled_back(trajectory, swaps)
        again = replay(call_outcomes(made, frozenset(self.tools)), self.session, ctx)
        if not again.ok:
            detail = {"step": again.step, "recorded": again.recorded, "replayed": again.replayed}
            return GivenUp(again.why, {**evidence, **detail})
        return Refined(made, "rolled_back", evidence)

    def rolled_back(self, trajectory: Trajectory, swaps: Sequence[Swap]) -> Trajectory:
        """The trajectory after `swaps`, not yet replayed; call ids follow the new step numbers."""
        steps: list[Step] = []
        cursor = 0
        for swap in swaps:
            steps += trajectory.steps[cursor : swap.failed.step]
            old, new = trajectory.steps[swap.failed.step], trajectory.steps[swap.correction.step]
            steps.append(new if swap.similarity < self.alike else _with_action(old, new))
            cursor = swap.correction.step + 1
        steps += trajectory.steps[cursor:]
        return msgspec.structs.replace(trajectory, steps=renumbered(steps), branch_point=swaps[0].failed.step)


def _alone(step: Step) -> bool:
    """Whether the step holds one call only; parallel calls cannot be swapped one by one."""
    return len(step.tool_calls) <= 1


def _form(call: CallOutcome) -> bool:
    return call.call_id is None


def _with_action(old: Step, new: Step) -> Step:
    """The old step's words with the new step's action and result."""
    if new.tool_calls:
        return msgspec.structs.replace(
            new, content=old.content, reasoning=old.reasoning, usage=None, timestamp=old.timestamp
        )
    text = text_of(old.content)
    *_, was = FENCE.finditer(text)
    *_, block = FENCE.finditer(text_of(new.content))
    swapped = text[: was.start()] + block.group(0) + text[was.end() :]
    return msgspec.structs.replace(new, content=text_part(swapped), reasoning=old.reasoning, usage=None)
