"""Long histories folded into a summary: the early interactions of a trajectory become one paragraph.

    [[refine]]
    use = "fold"
    keep = 3

After AgentFold's deep consolidation: an agent that works for long carries a summary of what it did instead of every
observation. A teacher writes the paragraph. It is taken only if it is shorter than what it replaces and holds every
fact (number, name, path) that a later turn of the agent uses and that stands nowhere else before that turn.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from schemas.ids import content_id
from schemas.trajectory import Step, Trajectory, text_of, text_part
from schemas.vocabulary import Source
from tasks.asking import ask, questions, teacher_of
from tasks.operator import Item, Operator, Result
from tasks.prompts import render, template_hash
from tasks.refine.base import GivenUp, Refined, Refiner
from tasks.refine.steps import renumbered

if TYPE_CHECKING:
    from tasks.client.teacher import Teacher
    from tasks.context import Context

_TEMPLATE = Path(__file__).with_suffix(".j2")
# What cannot be guessed: numbers of two digits or more, and words with a digit, a capital, or a sign within.
_FACT = re.compile(r"\d[\d.,]*\d|\b\w+(?:[/.@_:-]+\w+)+|\b[A-Za-z]+\d\w*|\b[a-z]+[A-Z]\w*")


class Fold(Refiner, frozen=True, kw_only=True):
    """Replaces all but the newest interactions by a teacher's summary.

    teacher: who condenses; empty: the recipe's teacher.
    keep: how many of the newest agent turns stay whole; at_least: how many must be folded for it to be worth it.
    step_chars: how much of each step the teacher sees; max_tokens: of its summary.
    """

    seeded: ClassVar[bool] = True
    inert: ClassVar[frozenset[str]] = frozenset({"teacher"})

    teacher: dict[str, Any] | None = None
    keep: int = 3
    at_least: int = 2
    step_chars: int = 1500
    max_tokens: int = 200

    def __post_init__(self) -> None:
        if self.keep < 1 or self.at_least < 1:
            raise ValueError(f"keep and at_least must be at least 1, not {self.keep} and {self.at_least}")

    def identity(self) -> dict[str, Any]:
        """The plug-in's identity with the hash of its prompt."""
        return {**Operator.identity(self), "template": template_hash(_TEMPLATE)}

    def fingerprint(self, ctx: "Context") -> str:
        """The operator's fingerprint with that of whoever condenses."""
        return content_id("operator", self.identity(), self._teacher(ctx).identity(), ctx.recipe.seed)

    def _teacher(self, ctx: "Context") -> "Teacher":
        return teacher_of(self.teacher, ctx, self.plugin_id())

    def eligible(self, trajectory: Trajectory) -> bool:
        """Whether enough turns can be folded, in a trajectory that links to no subagent's steps."""
        return not trajectory.subagents and self.span(trajectory) is not None

    def span(self, trajectory: Trajectory) -> tuple[int, int] | None:
        """The steps to fold, from the first agent turn to before the newest `keep`; None when there are too few.

        What a person says between them is never folded: the span ends there.
        """
        agent = [index for index, step in enumerate(trajectory.steps) if step.source is Source.AGENT]
        if len(agent) < self.keep + self.at_least:
            return None
        start, end = agent[0], agent[-self.keep]
        spoken = (
            index for index in range(start, end) if trajectory.steps[index].source in (Source.USER, Source.SYSTEM)
        )
        end = next(spoken, end)
        return (start, end) if sum(start <= index < end for index in agent) >= self.at_least else None

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Asks for all summaries of the batch at once, then folds what they fit."""
        known = dict(zip([item.id for item in items], ctx.lake.trajectories([i.ref for i in items]), strict=True))
        texts = [self.question(known[item.id]) for item in items]
        requests = questions(items, texts, self.max_tokens, self.plugin_id(), ctx)
        asked = ask(self._teacher(ctx), items, requests, self.stage, ctx)
        outcomes, trajectories = [], []
        fingerprint = self.fingerprint(ctx)
        for item, reply in asked.replies:
            outcome, new = self.settled(item, known[item.id], self.folded(known[item.id], reply.text), fingerprint)
            outcomes.append(outcome)
            trajectories += [new] if new is not None else []
        return Result(
            outcomes=tuple(outcomes),
            rows={"trajectories": trajectories, "requests": asked.accounts},
            dead=tuple(asked.dead),
            pending=tuple(asked.pending),
        )

    def question(self, trajectory: Trajectory) -> str:
        """What the teacher is asked."""
        start, end = self.span(trajectory) or (0, 0)
        steps = [
            {"who": step.source.value, "text": _text(step)[: self.step_chars]} for step in trajectory.steps[start:end]
        ]
        return render(_TEMPLATE, steps=steps)

    def folded(self, trajectory: Trajectory, summary: str) -> Refined | GivenUp:
        """The trajectory with `summary` in place of its early turns, or why the summary does not do."""
        start, end = self.span(trajectory) or (0, 0)
        summary = summary.strip()
        before, gone, after = trajectory.steps[:start], trajectory.steps[start:end], trajectory.steps[end:]
        length = sum(len(_text(step)) for step in gone)
        evidence = {"turns": sum(step.source is Source.AGENT for step in gone), "characters": [length, len(summary)]}
        if not summary or len(summary) >= length:
            return GivenUp("no_shorter" if summary else "empty_summary", evidence)
        lost = sorted(needed(gone, before, after) - facts(summary))
        if lost:
            return GivenUp("lost_fact", {**evidence, "lost": lost[:20]})
        note = f"Summary of the work so far:\n{summary}"
        steps = renumbered((*before, Step(source=Source.ENVIRONMENT, content=text_part(note)), *after))
        return Refined(msgspec.structs.replace(trajectory, steps=steps, branch_point=start), "folded", evidence)


def facts(text: str) -> set[str]:
    """The things in a text that a reader could not guess."""
    return {found.rstrip(".,:") for found in _FACT.findall(text)}


def needed(gone: Sequence[Step], before: Sequence[Step], after: Sequence[Step]) -> set[str]:
    """Facts of the folded steps that a later agent turn uses before anything else has brought them up."""
    offered = facts("\n".join(map(_text, gone)))
    known = facts("\n".join(map(_text, before)))
    wanted: set[str] = set()
    for step in after:
        own = text_of(step.content) + "".join(call.arguments for call in step.tool_calls)
        if step.source is Source.AGENT:
            wanted |= (facts(own) & offered) - known
        known |= facts(_text(step))
    return wanted


def _text(step: Step) -> str:
    calls = "".join(f"\n{call.name}({call.arguments})" for call in step.tool_calls)
    results = "".join(f"\n-> {text_of(result.content)}" for result in step.results)
    return f"{text_of(step.content)}{calls}{results}".strip()
