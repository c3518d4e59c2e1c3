"""Judges an answer twice, with tools: derives it anew (forward), and tests it against the task's conditions (backward).

A model writes two programs, which run in the sandbox: one that works the answer out without having seen it, and one
that tests the proposed answer. Both say yes: pass; both say no: fail; one of each: disputed, no reward. After
AgentV-RL's forward and backward agents. A task's specification (JSON; optional): {"tolerance": 1e-6}.
"""

from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.errors import Unavailable
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import Trust, VerdictKind
from tasks.sandbox.results import Limits, RunKind
from tasks.verify.answers.extract import (
    exact_number,
    final_answer,
    is_number,
    python_blocks,
    python_code,
    stated_number,
)
from tasks.verify.base import Judgement, disputed, spec_of, unparsable
from tasks.verify.judging.judge import ModelJudge, Question, judged, mark_for, shown, unread
from tasks.verify.ranges import Tolerance

if TYPE_CHECKING:
    from tasks.context import Context

_LONGEST = 2_000


class Spec(Base, frozen=True):
    """How much numbers may differ, relative to the larger of 1 and the derived one."""

    tolerance: Tolerance = 1e-6


class ForwardBackward(ModelJudge, frozen=True, kw_only=True):
    """Forward derivation and backward check must agree.

    timeout_s, cpu_s: for each of the two programs.
    """

    max_tokens: int = 1024
    timeout_s: float = 10.0
    cpu_s: float = 5.0

    prompts: ClassVar[tuple[str, ...]] = ("forward", "backward")

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Asks for both programs at once and runs them."""
        spec = spec_of(task, Spec)
        answer = final_answer(completion)
        if not answer or len(answer) > _LONGEST:
            return unparsable("no_answer")
        known = {"task": shown(task), "answer": answer}
        questions = [
            Question("forward", {"task": shown(task)}),
            Question("backward", {**known, "mark": mark_for(*known.values())}),
        ]
        replies, accounts = self.ask(task, questions, ctx)
        programs = [_program(reply.text) for reply in replies]
        evidence: dict[str, Any] = {"model": replies[0].model, "answer": answer[:300]}
        if programs[0] is None or programs[1] is None:
            return unread([r for r, code in zip(replies, programs, strict=True) if code is None], accounts, evidence)
        derived = self._last_line(programs[0], ctx)
        tested = self._last_line(f"answer = {answer!r}\n{programs[1]}", ctx)
        evidence |= {"derived": derived and derived[:300], "tested": tested and tested[:300]}
        if not derived or tested not in ("True", "False"):
            # The judge's own program is of no use; that says nothing about the answer.
            return unread(replies, accounts, evidence)
        forward, backward = same_answer(derived, answer, spec.tolerance), tested == "True"
        evidence |= {"forward": forward, "backward": backward}
        if forward != backward:
            return disputed("forward_and_backward_differ", evidence, Trust.MODEL)._replace(accounts=accounts)
        kind = VerdictKind.PASS if forward else VerdictKind.FAIL
        return judged(kind, float(forward), "pass" if forward else "wrong", evidence, accounts)

    def _last_line(self, code: str, ctx: "Context") -> str | None:
        """What the program printed last; None when it failed."""
        ran = ctx.sandbox.run_python(code, limits=Limits(wall_s=self.timeout_s, cpu_s=self.cpu_s))
        if ran.kind is RunKind.INFRASTRUCTURE:
            raise Unavailable(ran.reason, ran.detail)
        lines = ran.stdout.split("\n") if ran.kind is RunKind.OK else []
        return next((line.strip() for line in reversed(lines) if line.strip()), None)


def _program(text: str) -> str | None:
    """The program that a reply is; None where it shows several, of which one may be quoted from the answer."""
    return python_code(text) if len(python_blocks(text)) <= 1 else None


def same_answer(derived: str, answer: str, tolerance: float) -> bool:
    """Whether two answers are the same number, within the tolerance unless both are whole, or else the same words."""
    left, right = _number(derived), _number(answer)
    if left is not None and right is not None:
        if left.denominator == right.denominator == 1:
            return left == right
        return abs(left - right) <= Fraction(str(tolerance)) * max(Fraction(1), abs(left))
    return derived.strip(" .").casefold() == answer.strip(" .").casefold()


def _number(text: str) -> Fraction | None:
    text = text.strip().rstrip(".")
    found = text if is_number(text) else stated_number(text)
    return exact_number(found) if found else None
