"""Only the steps that matter are trained: a teacher names the critical ones, the others weigh nothing.

    [[label]]
    use = "critical_steps"
    share = 0.3

After ATLaS, which finds that a third of an expert's steps teaches as much as all of them: those that make a plan,
take in a decisive observation, act decisively or correct a mistake. The others stay in the context.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.ids import content_id
from schemas.rows import StepLabel
from schemas.trajectory import Step, Trajectory, text_of
from schemas.vocabulary import Source
from tasks.asking import ask, questions, teacher_of
from tasks.label.base import Labeler
from tasks.operator import Item, Operator, Outcome, Result, drop, keep
from tasks.prompts import render, template_hash

if TYPE_CHECKING:
    from tasks.client.teacher import Teacher
    from tasks.context import Context

_TEMPLATE = Path(__file__).with_suffix(".j2")
_LIST = re.compile(r"\[[\d\s,]*\]")


class CriticalSteps(Labeler, frozen=True, kw_only=True):
    """Weight 1 on the steps that a teacher calls critical, 0 on the other agent steps.

    teacher: who chooses; empty: the recipe's teacher.
    share: at most this share of the agent steps is critical, but at least one step.
    min_steps: trajectories with fewer agent steps are left as they are.
    step_chars: how much of each step the teacher sees.
    max_tokens: of its answer.
    """

    seeded: ClassVar[bool] = True
    batch_size: ClassVar[int] = 64
    inert: ClassVar[frozenset[str]] = frozenset({"teacher", "min_steps"})

    teacher: dict[str, Any] | None = None
    share: float = 0.3
    min_steps: int = 4
    step_chars: int = 400
    max_tokens: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share lies above 0 and up to 1, not at {self.share}")

    def identity(self) -> dict[str, Any]:
        """The plug-in's identity with the hash of its prompt."""
        return {**Operator.identity(self), "template": template_hash(_TEMPLATE)}

    def fingerprint(self, ctx: "Context") -> str:
        """The operator's fingerprint with that of whoever chooses."""
        return content_id("operator", self.identity(), self._teacher(ctx).identity(), ctx.recipe.seed)

    def _teacher(self, ctx: "Context") -> "Teacher":
        return teacher_of(self.teacher, ctx, self.plugin_id())

    def eligible(self, trajectory: Trajectory) -> bool:
        """Whether there are enough agent steps to choose from."""
        return len(agent_steps(trajectory)) >= self.min_steps

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Asks for every trajectory of the batch at once; an answer without a list of steps is `unparsable`."""
        known = dict(zip([item.id for item in items], ctx.lake.trajectories([i.ref for i in items]), strict=True))
        texts = [self.question(known[item.id]) for item in items]
        requests = questions(items, texts, self.max_tokens, self.plugin_id(), ctx)
        asked = ask(self._teacher(ctx), items, requests, self.stage, ctx)
        outcomes: list[Outcome] = []
        labels: list[StepLabel] = []
        for item, reply in asked.replies:
            one = known[item.id]
            chosen = self.chosen(one, reply.text)
            if not chosen:
                outcomes.append(drop(item, "unparsable", evidence={"reply": reply.text[:300]}))
                continue
            for index in agent_steps(one):
                reason = "critical" if index in chosen else "routine"
                labels.append(self.step_label(ctx, one, index, reason, weight=float(index in chosen)))
            outcomes.append(keep(item, "labelled", evidence={"critical": sorted(chosen)}))
        return Result(
            outcomes=tuple(outcomes),
            rows={"step_labels": labels, "requests": asked.accounts},
            dead=tuple(asked.dead),
            pending=tuple(asked.pending),
        )

    def limit(self, trajectory: Trajectory) -> int:
        """How many steps may be critical."""
        return max(1, int(self.share * len(agent_steps(trajectory))))

    def question(self, trajectory: Trajectory) -> str:
        """What the teacher is asked: the steps, numbered from 1, each cut to `step_chars`."""
        shown = [(step.source.value, _shown(step)[: self.step_chars]) for step in trajectory.steps]
        numbers = {index: number for number, index in enumerate(agent_steps(trajectory), 1)}
        steps = [{"number": numbers.get(index), "who": who, "text": text} for index, (who, text) in enumerate(shown)]
        return render(_TEMPLATE, steps=steps, limit=self.limit(trajectory))

    def chosen(self, trajectory: Trajectory, reply: str) -> set[int]:
        """The step indexes that the last list of numbers in the reply names, at most `limit` of them."""
        found = _LIST.findall(reply)
        numbers = json.loads(found[-1]) if found and found[-1].strip("[] \n") and _is_json(found[-1]) else []
        agent = agent_steps(trajectory)
        valid = [agent[number - 1] for number in dict.fromkeys(numbers) if 1 <= number <= len(agent)]
        return set(valid[: self.limit(trajectory)])


def agent_steps(trajectory: Trajectory) -> list[int]:
    """The indexes of the agent's own steps."""
    return [index for index, step in enumerate(trajectory.steps) if step.source is Source.AGENT]


def _shown(step: Step) -> str:
    calls = "".join(f"\n{call.name}({call.arguments})" for call in step.tool_calls)
    results = "".join(f"\n-> {text_of(result.content)}" for result in step.results)
    return f"{text_of(step.content)}{calls}{results}".strip()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
