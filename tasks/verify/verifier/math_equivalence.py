"""Judges mathematical answers by equivalence: 1/2, 0.5 and \\frac{1}{2} are the same answer.

A task's specification (JSON): {"answer": "\\\\frac{1}{2}"} or {"answers": ["1/2", "0.5"]} (any of them is right).
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.errors import MissingExtra, RecordError
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import VerdictKind
from tasks.verify.answers.extract import final_answer
from tasks.verify.base import Judgement, Verifier, failed, passed, spec_of, unparsable
from tasks.verify.workers.worker import WorkerDied, WorkerFailed, WorkerTimeout, pool

if TYPE_CHECKING:
    from tasks.context import Context

_LONGEST = 2_000


class Spec(Base, frozen=True):
    """One right answer, or several forms of it."""

    answer: str = ""
    answers: list[str] = []


class MathEquivalence(Verifier, frozen=True, kw_only=True):
    """Compares with math-verify in a process that can be killed; running out of time is timeout, not wrong.

    timeout_s: for one comparison.
    """

    version: ClassVar[int] = 2

    timeout_s: float = 10.0

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Extracts the final answer and compares it with each right one."""
        if find_spec("math_verify") is None:
            raise MissingExtra("math-verify", "math")
        spec = spec_of(task, Spec)
        golds = [*filter(None, [spec.answer]), *spec.answers]
        if not golds:
            raise RecordError("bad_spec", "math_equivalence: no answer")
        answer = final_answer(completion)
        if not answer:
            return unparsable("no_answer")
        if len(answer) > _LONGEST:
            return unparsable("too_long", {"characters": len(answer)})
        evidence: dict[str, Any] = {"answer": answer[:300]}
        for gold in golds:
            try:
                found = pool("tasks.verify.workers.math_equal:same").call(
                    {"gold": gold, "answer": answer}, self.timeout_s
                )
            except WorkerTimeout:
                return Judgement(VerdictKind.TIMEOUT, 0.0, "comparison_timeout", evidence)
            except WorkerFailed as error:
                return failed("comparison_error", {**evidence, "detail": str(error)})
            except WorkerDied:
                return Judgement(VerdictKind.MEMORY, 0.0, "comparison_died", evidence)
            evidence["how"] = found["how"]
            if found["same"]:
                return passed(evidence)
        return failed("wrong", evidence)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, and texts that a lenient parser may take for anything."""
        return {"empty": "", "nonsense": "\\boxed{xyzzy}", "any": "\\boxed{x}", "zero_over_zero": "\\boxed{0/0}"}
