"""How bad the states were that a trajectory went on from, kept in the lake as a signature.

Two measures: failed calls in a row before one that succeeded (what an agent got itself out of), and the lowest reward
that a step states before the agent's last step. A run of failures at the end was not got out of and counts nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from schemas.trajectory import Trajectory
from schemas.vocabulary import Source
from tasks.calls import call_outcomes
from tasks.curate.features import Signatures, Signed, signatures

if TYPE_CHECKING:
    from warehouse.lake import Lake

Measure = Literal["failures", "reward"]

# reward: NaN where no step states one.
STATES = np.dtype([("failures", "<u4"), ("reward", "<f8")])


def states(lake: "Lake", refs: Sequence[str]) -> Signatures:
    """The STATES of each trajectory."""

    def make(trajectories: Sequence[Trajectory]) -> list[Signed]:
        rows = [np.array((failures(one), lowest_reward(one)), STATES) for one in trajectories]
        return [Signed("", row.tobytes()) for row in rows]

    return signatures(lake, refs, "states/1", STATES, make)


def badness(found: Signatures, measure: Measure) -> NDArray[np.float64]:
    """How bad the worst state was, -inf where nothing says so."""
    if measure == "failures":
        counts: NDArray[np.float64] = found.values["failures"].astype(np.float64)
        return np.where(counts > 0, counts, -np.inf)
    rewards = found.values["reward"]
    return np.where(np.isnan(rewards), -np.inf, -rewards)


def failures(trajectory: Trajectory) -> int:
    """The longest run of failed calls that a succeeding one ended."""
    longest = run = 0
    for call in call_outcomes(trajectory):
        if call.failed is False:
            longest, run = max(longest, run), 0
        elif call.failed:
            run += 1
    return longest


def lowest_reward(trajectory: Trajectory) -> float:
    """The lowest reward of a step before the agent's last one; NaN without any."""
    acting = [index for index, step in enumerate(trajectory.steps) if step.source is Source.AGENT]
    before = trajectory.steps[: acting[-1]] if acting else ()
    return min((step.reward for step in before if step.reward is not None), default=float("nan"))
