"""Compares a short answer with reference answers: exact, numeric with unit, or by word overlap; knows abstention.

A task's specification (JSON):

    {"answers": ["Paris", "paris, france"], "mode": "exact"}
    {"answers": ["12.5"], "mode": "numeric", "tolerance": 0.01, "units": {"km": 1, "m": 0.001}}
    {"answers": ["the red fox"], "mode": "f1"}
    {"answers": [], "unanswerable": true}
"""

import re
import string
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from schemas.errors import RecordError
from schemas.task import Task
from schemas.trajectory import Base
from tasks.verify.answers.extract import exact_number, final_answer
from tasks.verify.base import Judgement, Verifier, failed, passed, spec_of, unparsable
from tasks.verify.ranges import Tolerance

if TYPE_CHECKING:
    from tasks.context import Context

_ABSTAINS = re.compile(
    r"\b(?:i (?:do not|don't|don’t) know|(?:can ?not|can't|can’t) be (?:determined|answered)|unanswerable|no answer|"
    r"i am not sure|i'm not sure|insufficient information|not enough information)\b",
    re.IGNORECASE,
)
_ARTICLES = frozenset(("a", "an", "the"))
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_QUANTITY = re.compile(r"([-+]?(?:\d[\d,]*+(?:\.\d++)?|\.\d++)(?:[eE][-+]?\d++)?(?:/\d++)?)\s*([^\s\d.,;:!?()]*)")
_LONGEST = 5_000


class Spec(Base, frozen=True):
    """The references and how to compare; `units` maps each accepted unit to its size in the reference's unit."""

    answers: list[str] = []
    mode: Literal["exact", "numeric", "f1"] = "exact"
    tolerance: Tolerance = 0.0
    units: dict[str, float] = {}
    unanswerable: bool = False


class AnswerCheck(Verifier, frozen=True, kw_only=True):
    """Checks the final answer against the task's reference answers.

    threshold: the least F1 that counts as solved (mode f1; the F1 itself is the reward).
    abstain_reward: reward of saying "I don't know" where there is an answer, so that it can be worth more than a wrong
    one; where there is none, abstaining is the right answer.
    """

    threshold: float = 1.0
    abstain_reward: float = 0.0

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Extracts the final answer and compares it with each reference; the best one counts."""
        spec = spec_of(task, Spec)
        if not spec.answers and not spec.unanswerable:
            raise RecordError("bad_spec", "answer_check: neither answers nor unanswerable")
        answer = final_answer(completion)
        if not answer:
            return unparsable("no_answer")
        if len(answer) > _LONGEST:
            return unparsable("too_long", {"characters": len(answer)})
        evidence: dict[str, Any] = {"answer": answer[:300], "mode": spec.mode}
        if _ABSTAINS.search(answer):
            if spec.unanswerable:
                return passed(evidence, "abstained")
            return failed("abstained", evidence, self.abstain_reward)
        if spec.unanswerable:
            return failed("answered_the_unanswerable", evidence)
        if spec.mode == "numeric":
            return self._numeric(spec, answer, evidence)
        score = max(_agreement(spec.mode, answer, reference) for reference in spec.answers)
        evidence["score"] = round(score, 4)
        return passed(evidence) if score >= self.threshold else failed("wrong", evidence, score)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, everything at once, and a refusal to answer."""
        spec = spec_of(task, Spec)
        cheats = {"empty": "", "nonsense": "xyzzy plugh"}
        return cheats if spec.unanswerable else {**cheats, "abstain": "I don't know."}

    def _numeric(self, spec: Spec, answer: str, evidence: dict[str, Any]) -> Judgement:
        found = _QUANTITY.findall(answer.rpartition("=")[2]) or _QUANTITY.findall(answer)
        if not found:
            return unparsable("no_number", evidence)
        number, unit = found[-1]
        value = exact_number(number)
        if value is None:
            return unparsable("no_number", evidence)
        if spec.units:
            factor = spec.units.get(unit)
            if factor is None:
                return failed("wrong_unit", {**evidence, "unit": unit})
            value *= Fraction(str(factor))
        for reference in spec.answers:
            wanted = exact_number(reference)
            if wanted is None:
                raise RecordError("bad_spec", f"answer_check: {reference!r} is no number")
            if abs(value - wanted) <= Fraction(str(spec.tolerance)) * max(abs(wanted), Fraction(1)):
                return passed(evidence)
        return failed("wrong", evidence)


def _words(text: str) -> list[str]:
    return [word for word in text.lower().translate(_PUNCTUATION).split() if word not in _ARTICLES]


def _agreement(mode: str, answer: str, reference: str) -> float:
    """1.0 for the same words; with mode f1 the harmonic mean of precision and recall over words."""
    left, right = _words(answer), _words(reference)
    if left == right:
        # Answers of punctuation or articles alone are compared as they stand.
        return 1.0 if left or answer.strip() == reference.strip() else 0.0
    if mode == "exact":
        return 0.0
    common = sum((Counter(left) & Counter(right)).values())
    return 2 * common / (len(left) + len(right)) if common else 0.0
