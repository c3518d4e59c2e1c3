"""Judges an answer criterion by criterion: a model says yes or no to each, in a call of its own.

A task's specification (JSON):

    {"criteria": [{"text": "names the cause", "weight": 2}, {"text": "is at most three sentences long"}],
     "threshold": 0.7, "reference": "…"}

With the option `criteria` the same criteria are asked of every trajectory that has a task. After the rubrics of ATLAS
and Terminus, which score one criterion at a time.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from schemas.errors import RecordError
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import VerdictKind
from tasks.operator import Plan, WorkingSet
from tasks.verify.base import Judgement, spec_of, unparsable
from tasks.verify.judging.judge import YES_NO, ModelJudge, Question, judged, mark_for, opinion, shown, unread
from tasks.verify.plans import plan_trajectories
from tasks.verify.ranges import Share, Weight

if TYPE_CHECKING:
    from tasks.context import Context


class Criterion(Base, frozen=True):
    """One criterion, as the judge reads it, and how much it counts."""

    text: str
    weight: Weight = 1.0


class Spec(Base, frozen=True):
    """The criteria, the least weighted share that passes, and an answer to compare with."""

    criteria: list[Criterion] = []
    threshold: Share = 1.0
    reference: str = ""


class Rubric(ModelJudge, frozen=True, kw_only=True):
    """The weighted share of the criteria that a model says are met; it passes at the threshold.

    criteria: for every trajectory with a task, in place of the tasks' own specifications; threshold: of these.
    """

    criteria: tuple[str, ...] = ()
    threshold: float = 1.0

    prompts: ClassVar[tuple[str, ...]] = ("rubric",)

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """Trajectories whose task names the rubric; with criteria of its own, all that have a task."""
        return plan_trajectories(self.reads, inputs, ctx, "" if self.criteria else self.plugin_id())

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Asks all criteria; one that cannot be read makes the whole unparsable."""
        spec = self._spec(task)
        total = sum(each.weight for each in spec.criteria)
        if total <= 0 or any(each.weight < 0 for each in spec.criteria):
            raise RecordError("bad_spec", "rubric: criteria with weights of at least 0, not all 0, are needed")
        if not completion.strip():
            return unparsable("no_answer")
        mark = mark_for(completion, shown(task), spec.reference)
        known = {"task": shown(task), "answer": completion, "reference": spec.reference, "mark": mark}
        questions = [Question("rubric", {**known, "criterion": each.text}) for each in spec.criteria]
        replies, accounts = self.ask(task, questions, ctx, YES_NO)
        opinions = [opinion(reply.text) for reply in replies]
        evidence: dict[str, Any] = {
            "model": replies[0].model,
            "criteria": [
                {"text": each.text[:200], "weight": each.weight, "met": said.yes, "why": said.why}
                for each, said in zip(spec.criteria, opinions, strict=True)
            ],
        }
        bad = [reply for reply, said in zip(replies, opinions, strict=True) if said.yes is None]
        if bad:
            return unread(bad, accounts, evidence)
        met = sum(each.weight for each, said in zip(spec.criteria, opinions, strict=True) if said.yes)
        reward = min(1.0, met / total)
        good = reward >= spec.threshold - 1e-9
        kind = VerdictKind.PASS if good else VerdictKind.FAIL
        return judged(kind, reward, "pass" if good else "below_threshold", evidence, accounts)

    def _spec(self, task: Task) -> Spec:
        if not self.criteria:
            return spec_of(task, Spec)
        return Spec(criteria=[Criterion(text=text) for text in self.criteria], threshold=self.threshold)
