"""Where two trajectories of one task part: the first step at which they differ, and whose step that is."""

from typing import Literal, NamedTuple

from schemas.trajectory import Step, ToolResult, Trajectory, text_of
from schemas.vocabulary import Source

What = Literal["turn", "prompt", "observation", "prefix", "identical"]


class Divergence(NamedTuple):
    """The first difference.

    `turn`: both hold an agent turn at `step` and the turns differ. `prompt`: they differ before any agent turn, or in
    the tools offered. `observation`: the same turns got different answers. `prefix`: one ends where the other goes
    on. `identical`: no difference in what was said and done.
    """

    what: What
    step: int


def first_difference(one: Trajectory, other: Trajectory) -> Divergence:
    """Where `one` and `other` part; times, ids, usage and names of models do not count."""
    acted = False
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=False)):
        offered = _tools(one, a) == _tools(other, b)
        if a.source is not b.source or not offered:
            return Divergence("observation" if acted and offered else "prompt", index)
        if _said(a) != _said(b):
            if a.source is Source.AGENT:
                return Divergence("turn", index)
            return Divergence("observation" if acted else "prompt", index)
        if list(map(_came_back, a.results)) != list(map(_came_back, b.results)):
            return Divergence("observation", index)
        acted = acted or a.source is Source.AGENT
    if len(one.steps) != len(other.steps):
        return Divergence("prefix", min(len(one.steps), len(other.steps)))
    return Divergence("identical", len(one.steps))


def is_last_turn(trajectory: Trajectory, step: int) -> bool:
    """Whether no agent turn follows `step`."""
    return all(later.source is not Source.AGENT for later in trajectory.steps[step + 1 :])


def _tools(trajectory: Trajectory, step: Step) -> str | None:
    return None if step.tools is None else trajectory.tool_sets[step.tools]


def _said(step: Step) -> tuple[object, ...]:
    calls = tuple((call.name, call.arguments_json or call.arguments) for call in step.tool_calls)
    media = tuple(part.sha256 or part.uri for part in step.content if part.text is None)
    return text_of(step.content), step.reasoning or "", calls, media


def _came_back(result: ToolResult) -> tuple[object, ...]:
    return text_of(result.content), result.name
