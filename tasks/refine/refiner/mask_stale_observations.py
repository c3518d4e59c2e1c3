"""Long trajectories in a small context: all but the newest observations give way to a placeholder.

    [[refine]]
    use = "mask_stale_observations"
    keep = 3

Agents that run for long work with a window: old tool outputs are left out, the calls and the reasoning stay. This
gives a trajectory the form that such an agent sees at its last turn. Nothing has to be run again, since no action
changes.
"""

from typing import TYPE_CHECKING, Literal

import msgspec

from schemas.trajectory import Part, Step, Trajectory, text_of
from schemas.vocabulary import Source
from tasks.refine.base import GivenUp, Refined, Refiner

if TYPE_CHECKING:
    from tasks.context import Context


class MaskStaleObservations(Refiner, frozen=True, kw_only=True):
    """Replaces the text of observations older than the newest `keep` ones.

    keep: how many observations stay whole; min_chars: shorter ones stay as well.
    placeholder: what stands in their place.
    train: "all" turns keep their weight, though the earlier ones were sampled with more in view; "last" gives weight
    0 to every agent turn but those after the newest observation, whose view is exactly what the row shows.
    """

    keep: int = 3
    min_chars: int = 200
    placeholder: str = "[old output left out]"
    train: Literal["all", "last"] = "all"

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise ValueError(f"keep must be at least 1, not {self.keep}")

    def eligible(self, trajectory: Trajectory) -> bool:
        """Whether some old observation is long enough to be left out."""
        return bool(self._stale(trajectory))

    def _stale(self, trajectory: Trajectory) -> set[int]:
        """Indexes of the steps whose observations are left out."""
        holders = [index for index, step in enumerate(trajectory.steps) if _observed(step) is not None]
        return {
            index for index in holders[: -self.keep] if len(_observed(trajectory.steps[index]) or "") >= self.min_chars
        }

    def refine(self, trajectory: Trajectory, ctx: "Context") -> Refined | GivenUp:
        """The trajectory with placeholders; call ids and errors stay."""
        stale = self._stale(trajectory)
        newest = max(index for index, step in enumerate(trajectory.steps) if _observed(step) is not None)
        steps = []
        for index, old in enumerate(trajectory.steps):
            step = self._masked(old) if index in stale else old
            # A turn that holds its own result was sampled before that result came.
            seen_all = index > newest
            if self.train == "last" and step.source is Source.AGENT and not seen_all:
                step = msgspec.structs.replace(step, weight=0.0)
            steps.append(step)
        left_out = sum(len(_observed(trajectory.steps[index]) or "") for index in stale)
        made = msgspec.structs.replace(trajectory, steps=tuple(steps))
        return Refined(made, "masked", {"observations": len(stale), "characters": left_out})

    def _masked(self, step: Step) -> Step:
        note = (Part(text=self.placeholder),)
        results = tuple(msgspec.structs.replace(result, content=note) for result in step.results)
        if step.source is Source.ENVIRONMENT and not step.results:
            return msgspec.structs.replace(step, content=note)
        return msgspec.structs.replace(step, results=results)


def _observed(step: Step) -> str | None:
    """The text that a step brings from outside, None when it brings nothing."""
    if step.results:
        return "".join(text_of(result.content) for result in step.results)
    return text_of(step.content) if step.source is Source.ENVIRONMENT else None
