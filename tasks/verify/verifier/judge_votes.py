"""Asks a model several times whether an answer is right; the majority of the recorded votes decides.

A task's specification (JSON; every field is optional):

    {"question": "Is the answer correct and complete?", "reference": "…"}

After Prism-Reranker's votes of a judge. With an odd number of votes there is no tie; the share that agreed is evidence.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import VerdictKind
from tasks.verify.base import Judgement, spec_of, unparsable
from tasks.verify.judging.judge import YES_NO, ModelJudge, Question, judged, mark_for, opinion, shown, unread

if TYPE_CHECKING:
    from tasks.context import Context


class Spec(Base, frozen=True):
    """What is asked about the answer, and an answer to compare with."""

    question: str = "Is the answer correct and complete?"
    reference: str = ""


class JudgeVotes(ModelJudge, frozen=True, kw_only=True):
    """The majority of several votes; a vote that cannot be read counts for neither side.

    votes: how many, an odd number. temperature: above 0, so that votes can differ.
    """

    votes: int = 3
    temperature: float = 0.8

    prompts: ClassVar[tuple[str, ...]] = ("judge_votes",)

    def __post_init__(self) -> None:
        if self.votes < 1 or self.votes % 2 == 0:
            raise ValueError("votes must be an odd number")

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """All votes at once. Without a majority of all votes it is unparsable: too many could not be read."""
        spec = spec_of(task, Spec)
        if not completion.strip():
            return unparsable("no_answer")
        known = {"task": shown(task), "answer": completion, "question": spec.question, "reference": spec.reference}
        known["mark"] = mark_for(*known.values())
        questions = [Question("judge_votes", known, sample=vote) for vote in range(self.votes)]
        replies, accounts = self.ask(task, questions, ctx, YES_NO)
        opinions = [opinion(reply.text) for reply in replies]
        yes, no = sum(said.yes is True for said in opinions), sum(said.yes is False for said in opinions)
        evidence: dict[str, Any] = {
            "model": replies[0].model,
            "votes": [{"yes": said.yes, "why": said.why} for said in opinions],
            "agreement": round(max(yes, no) / self.votes, 4),
        }
        if max(yes, no) * 2 <= self.votes:
            return unread(
                [r for r, said in zip(replies, opinions, strict=True) if said.yes is None], accounts, evidence
            )
        kind = VerdictKind.PASS if yes > no else VerdictKind.FAIL
        return judged(kind, float(yes > no), "majority", evidence, accounts)
