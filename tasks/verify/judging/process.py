"""The base of verifiers that judge how an agent went about it: they read the whole trajectory, with or without a task.

What is judged is a text like every answer: the steps as JSON, so that equal ones are judged once.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from schemas.ids import canonical_json
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Base, Step, Trajectory, text_of
from schemas.vocabulary import Source
from tasks.calls import CallOutcome, call_outcomes
from tasks.operator import Item, Plan, WorkingSet
from tasks.verify.judging.judge import ModelJudge
from tasks.verify.plans import plan_every

if TYPE_CHECKING:
    from tasks.context import Context


class Call(Base, frozen=True):
    """A call with what came back; `failed` None: nothing did. code: the Python that it ran, if it did."""

    name: str
    arguments: str
    output: str = ""
    failed: bool | None = None
    code: str | None = None


class Shown(Base, frozen=True):
    """A step as a judge reads it: its index, who speaks, what it says, what it calls."""

    index: int
    who: str
    text: str
    calls: list[Call] = []


class ProcessJudge(ModelJudge, frozen=True, kw_only=True):
    """Judges the steps of every trajectory.

    step_chars: so many characters of each text are shown to the model.
    """

    step_chars: int = 2000

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """Every trajectory."""
        return plan_every(self.reads, inputs)

    def tasks_of(self, items: Sequence[Item], trajectories: Sequence[Trajectory], ctx: "Context") -> list[Task]:
        """Each trajectory's task or, where it has none, what it was asked."""
        ids = sorted({each.task_id for each in trajectories if each.task_id})
        known = {task.id: task for task in ctx.lake.tasks(ids)}
        return [known[each.task_id] if each.task_id else _asked_of(each, self.plugin_id()) for each in trajectories]

    def answer(self, task: Task, trajectory: Trajectory) -> str:
        """The steps as JSON text."""
        return canonical_json(steps_of(trajectory))

    def cheats(self, task: Task) -> Mapping[str, str]:
        """None: a task has no gold way of going about it."""
        return {}

    def cut(self, text: str) -> str:
        """The text as far as the model is shown it; its head and its tail."""
        if len(text) <= self.step_chars:
            return text
        half = self.step_chars // 2
        return f"{text[:half]}\n[…]\n{text[-half:]}"


def steps_of(trajectory: Trajectory) -> list[Shown]:
    """The steps with their calls; context that was copied into the trajectory is left out."""
    calls: dict[int, list[CallOutcome]] = {}
    for outcome in call_outcomes(trajectory):
        calls.setdefault(outcome.step, []).append(outcome)
    return [
        Shown(
            index=index,
            who=step.source.value,
            text="\n".join(filter(None, (step.reasoning, text_of(step.content)))),
            calls=[_call(step, each) for each in calls.get(index, [])],
        )
        for index, step in enumerate(trajectory.steps)
        if not step.copied_context
    ]


def read(completion: str) -> list[Shown] | None:
    """The steps of an answer; None for a text that holds none."""
    try:
        return msgspec.json.decode(completion, type=list[Shown])
    except (msgspec.MsgspecError, RecursionError):
        return None


def _call(step: Step, outcome: CallOutcome) -> Call:
    given = next((call.arguments for call in step.tool_calls if call.id == outcome.call_id), outcome.code or "")
    return Call(name=outcome.name, arguments=given, output=outcome.output, failed=outcome.failed, code=outcome.code)


def _asked_of(trajectory: Trajectory, use: str) -> Task:
    first = next((i for i, step in enumerate(trajectory.steps) if step.source is Source.AGENT), 0)
    said = [step for step in trajectory.steps[:first] if step.source is Source.USER]
    prompt = tuple(Message(role="user", content=text_of(step.content)) for step in said)
    return Task(id=trajectory.id, kind="", prompt=prompt, verifier=VerifierSpec(use=use))
