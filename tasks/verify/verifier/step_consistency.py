"""Checks that each step of an agent fits together: its plan, its calls, their results, and what it says afterwards.

Whether a call was answered at all is checked by code; whether they agree is a model's opinion, one call a step. After
Skywork-R1V4's consistency filter. Judges every trajectory; it needs no specification.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from schemas.task import Task
from schemas.vocabulary import Source, VerdictKind
from tasks.verify.base import Judgement, failed, passed, unparsable
from tasks.verify.judging.judge import YES_NO, Question, judged, mark_for, opinion, unread
from tasks.verify.judging.process import ProcessJudge, Shown, read

if TYPE_CHECKING:
    from tasks.context import Context


class StepConsistency(ProcessJudge, frozen=True, kw_only=True):
    """The share of steps with calls that are consistent; it passes when all are."""

    prompts: ClassVar[tuple[str, ...]] = ("step_consistency",)

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Steps with an unanswered call are wrong without asking; the others are asked about."""
        steps = read(completion)
        if steps is None:
            return unparsable("no_steps")
        acting = [(place, step) for place, step in enumerate(steps) if step.calls]
        if not acting:
            return passed(reason="no_calls")
        unanswered = [step.index for _, step in acting if any(call.failed is None for call in step.calls)]
        asking = [(place, step) for place, step in acting if step.index not in unanswered]
        evidence: dict[str, Any] = {"steps": len(acting), "unanswered": unanswered[:20]}
        if not asking:
            return failed("unanswered", evidence)
        replies, accounts = self.ask(task, [self._question(steps, *each) for each in asking], ctx, YES_NO)
        opinions = [opinion(reply.text) for reply in replies]
        bad = [reply for reply, said in zip(replies, opinions, strict=True) if said.yes is None]
        if bad:
            return unread(bad, accounts, evidence)
        wrong = [(step.index, said.why) for (_, step), said in zip(asking, opinions, strict=True) if not said.yes]
        evidence |= {"model": replies[0].model, "inconsistent": [{"step": i, "why": why} for i, why in wrong[:20]]}
        reward = 1.0 - (len(wrong) + len(unanswered)) / len(acting)
        if not wrong and not unanswered:
            return judged(VerdictKind.PASS, 1.0, "pass", evidence, accounts)
        return judged(VerdictKind.FAIL, reward, "inconsistent" if wrong else "unanswered", evidence, accounts)

    def _question(self, steps: list[Shown], place: int, step: Shown) -> Question:
        later = next((each.text for each in steps[place + 1 :] if each.who == Source.AGENT.value), "")
        calls = [
            {"name": call.name, "arguments": self.cut(call.arguments), "output": self.cut(call.output)}
            for call in step.calls
        ]
        known: dict[str, Any] = {"plan": self.cut(step.text), "calls": calls, "next": self.cut(later)}
        return Question("step_consistency", {**known, "mark": mark_for(str(known))})
