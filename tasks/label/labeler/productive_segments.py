"""What is worth learning in failed attempts: the stretches that got somewhere.

    [[label]]
    use = "productive_segments"

After Orchard, which trains on the productive segments of unresolved traces. What counts as productive is defined
here by what can be read off a trajectory: a step is productive when all its calls came back without an error and
told something new, and stretches of such steps are segments. The last agent step of a failed attempt never counts:
it holds, or stopped short of, the answer that failed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from schemas.rows import StepLabel
from schemas.trajectory import Trajectory
from schemas.vocabulary import Source
from tasks.calls import call_outcomes
from tasks.judged import judged
from tasks.label.base import Labeler

if TYPE_CHECKING:
    from tasks.context import Context


class ProductiveSegments(Labeler, frozen=True, kw_only=True):
    """Weight 1 on the productive segments of failed trajectories, 0 on their other agent steps.

    min_steps: how many productive steps in a row make a segment.
    """

    min_steps: int = 2

    def __post_init__(self) -> None:
        if self.min_steps < 1:
            raise ValueError(f"min_steps must be at least 1, not {self.min_steps}")

    def wanted(self, trajectories: Sequence[Trajectory], ctx: "Context") -> list[Trajectory]:
        """Failed trajectories with at least one segment."""
        failed = {one.trajectory_id for one in judged([t.id for t in trajectories], ctx) if not one.passed}
        return [one for one in trajectories if one.id in failed and self.segments(one)]

    def segments(self, trajectory: Trajectory) -> list[list[int]]:
        """The segments as lists of agent step indexes."""
        agent = [index for index, step in enumerate(trajectory.steps) if step.source is Source.AGENT]
        good = _productive(trajectory)
        found: list[list[int]] = [[]]
        for index in agent[:-1]:
            if index in good:
                found[-1].append(index)
            elif found[-1]:
                found.append([])
        return [segment for segment in found if len(segment) >= self.min_steps]

    def label(self, trajectory: Trajectory, ctx: "Context") -> list[StepLabel]:
        """One label per agent step."""
        inside = {index for segment in self.segments(trajectory) for index in segment}
        return [
            self.step_label(
                ctx,
                trajectory,
                index,
                "productive" if index in inside else "unproductive",
                weight=1.0 if index in inside else 0.0,
            )
            for index, step in enumerate(trajectory.steps)
            if step.source is Source.AGENT
        ]


def _productive(trajectory: Trajectory) -> set[int]:
    """Agent steps whose calls all succeeded and whose call or output was not seen before."""
    good: set[int] = set()
    bad: set[int] = set()
    seen: set[tuple[str, str, str]] = set()
    for outcome in call_outcomes(trajectory):
        calls = trajectory.steps[outcome.step].tool_calls
        arguments = next((call.arguments for call in calls if call.id == outcome.call_id), outcome.code or "")
        what = (outcome.name, arguments, outcome.output)
        if outcome.failed is not False or what in seen:
            bad.add(outcome.step)
        else:
            good.add(outcome.step)
        seen.add(what)
    return good - bad
