"""Drops trajectories that are no whole runs of an agent."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schemas.rows import Verdict
from schemas.trajectory import Step, Trajectory, text_of
from schemas.vocabulary import ArgumentState, Source
from tasks.curate.base import KEEP, Choice, Selector
from tasks.curate.view import action_text, own_steps
from tasks.operator import Item

if TYPE_CHECKING:
    from tasks.context import Context


class Structural(Selector, frozen=True, kw_only=True):
    """Drops trajectories that are no whole runs of an agent.

    Reasons: no_agent_step, ends_mid_action, no_answer, empty_answer, cut, unparsed_call, unanswered_call, looping.

    ends_mid_action: the last step calls a tool whose result is not there, or the run was broken off.
    no_answer: the last word is not the agent's (`allow_no_answer`). cut: the last message hit the
    token limit (`allow_cut` keeps it).
    unparsed_call: a call's arguments are no JSON object (`allow_unparsed`). unanswered_call: a call before the end
    has no result (`allow_unanswered`). looping: one and the same step more than `max_repeats` times (0: any).
    min_calls: the least number of tool calls that the agent itself made, else too_few_calls.
    final_calls: names of tools whose call is itself the end (submit, finish): no result is expected.
    """

    allow_cut: bool = False
    allow_no_answer: bool = False
    allow_unparsed: bool = False
    allow_unanswered: bool = False
    max_repeats: int = 5
    min_calls: int = 0
    final_calls: tuple[str, ...] = ("finish", "submit")

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """The first fault found, with the number of the step that shows it."""
        steps = own_steps(trajectory)
        acting = [(number, step) for number, step in enumerate(steps) if step.source is Source.AGENT]
        if not acting:
            return Choice(False, "no_agent_step", evidence={"steps": len(steps)})
        return self._end(trajectory, steps, *acting[-1]) or self._calls(acting) or self._repeats(acting) or KEEP

    def _end(self, trajectory: Trajectory, steps: Sequence[Step], number: int, last: Step) -> Choice | None:
        where = {"step": number, "steps": len(steps)}
        missing = _open_calls(last)
        if missing and missing[-1] not in self.final_calls:
            return Choice(False, "ends_mid_action", evidence={**where, "calls": missing})
        if trajectory.truncated and not self.allow_cut:
            return Choice(False, "cut", evidence={**where, "truncated": True})
        if last.finish_reason == "length" and not self.allow_cut:
            return Choice(False, "cut", evidence={**where, "finish_reason": "length"})
        ended = any(call.name in self.final_calls for call in last.tool_calls)
        spoke_last = number == len(steps) - 1 and not last.tool_calls
        if not (ended or spoke_last or self.allow_no_answer):
            return Choice(False, "no_answer", evidence={**where, "last": steps[-1].source.value})
        if not last.tool_calls and not text_of(last.content).strip():
            return Choice(False, "empty_answer", evidence=where)
        return None

    def _calls(self, acting: Sequence[tuple[int, Step]]) -> Choice | None:
        for number, step in acting:
            for call in step.tool_calls:
                if call.state is not ArgumentState.PARSED and not self.allow_unparsed:
                    evidence = {"step": number, "call": call.id, "state": call.state.value}
                    return Choice(False, "unparsed_call", evidence=evidence)
            missing = _open_calls(step)
            if missing and number != acting[-1][0] and not self.allow_unanswered:
                return Choice(False, "unanswered_call", evidence={"step": number, "calls": missing})
        made = sum(len(step.tool_calls) for _, step in acting)
        if made < self.min_calls:
            return Choice(False, "too_few_calls", made, {"calls": made, "least": self.min_calls})
        return None

    def _repeats(self, acting: Sequence[tuple[int, Step]]) -> Choice | None:
        if not self.max_repeats:
            return None
        counted = Counter(action_text(step) for _, step in acting)
        text, times = max(counted.items(), key=lambda pair: (pair[1], pair[0]))
        if times <= self.max_repeats:
            return None
        return Choice(False, "looping", times, {"times": times, "action": text[:200]})


def _open_calls(step: Step) -> list[str]:
    """The names of the step's calls that no result answers."""
    answered = {result.call_id for result in step.results}
    return [call.name for call in step.tool_calls if call.id not in answered]
