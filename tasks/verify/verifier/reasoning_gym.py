"""Scores answers to reasoning-gym tasks with the scorer of their own data set.

A task's specification (JSON): {"dataset": "chain_sum", "config": {…}, "seed": 1, "index": 3, "entry": {…}}, where
`entry` has question, answer and metadata as the package gave them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.errors import RecordError
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import VerdictKind
from tasks.verify.answers.extract import final_answer, is_number, stated_number
from tasks.verify.base import Judgement, Verifier, failed, passed, spec_of, unparsable
from tasks.verify.workers import gym
from tasks.verify.workers.worker import WorkerDied, WorkerFailed, WorkerTimeout, pool

if TYPE_CHECKING:
    from tasks.context import Context

# A longer answer is no answer to these puzzles, and some scorers are quadratic in its length.
_LONGEST = 20_000


class Spec(Base, frozen=True):
    """Where the entry comes from, and the entry."""

    dataset: str
    entry: dict[str, Any]
    config: dict[str, Any] = {}
    seed: int = 0
    index: int = 0


class ReasoningGym(Verifier, frozen=True, kw_only=True):
    """Asks the data set's own scorer; passes at `threshold`, and the score is the reward.

    The answer is what stands in the last <answer> tag, \\boxed{} or after an "answer:" mark, else the last line;
    where a number is asked for, the number that it states as its result.

    threshold: the least score that counts as solved. timeout_s: for one answer; a scorer that takes longer is
    killed and the verdict is timeout.
    """

    threshold: float = 1.0
    timeout_s: float = 20.0

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Extracts the answer and scores it in a helper process."""
        spec = _spec(task)
        answers = _answers(completion, str(spec.entry.get("answer")))
        if not answers:
            return unparsable("no_answer")
        if len(answers[0]) > _LONGEST:
            return unparsable("too_long", {"characters": len(answers[0])})
        tried = []
        for answer in answers:
            tried.append(self._score(spec, answer))
            if tried[-1].kind is VerdictKind.PASS:
                return tried[-1]
        # What was extracted is what the verdict speaks of; the whole text may only have earned a little more.
        return max(tried, key=lambda found: found.reward or 0.0)

    def _score(self, spec: Spec, answer: str) -> Judgement:
        evidence: dict[str, Any] = {"answer": answer[:300], "dataset": spec.dataset}
        request = {**msgspec.to_builtins(spec), "answer": answer}
        try:
            score = pool("tasks.verify.workers.gym:score").call(request, self.timeout_s)
        except WorkerTimeout:
            return Judgement(VerdictKind.TIMEOUT, 0.0, "scorer_timeout", evidence)
        except WorkerFailed as error:
            return failed("scorer_error", {**evidence, "detail": str(error)})
        except WorkerDied:
            return Judgement(VerdictKind.MEMORY, 0.0, "scorer_died", evidence)
        evidence["score"] = score
        if not isinstance(score, float) or not 0.0 <= score <= 1.0:
            return failed("bad_score", evidence)
        return passed(evidence) if score >= self.threshold else failed("wrong", evidence, score)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, a text that means nothing, and words that could name any value."""
        return {"empty": "", "nonsense": "<answer>xyzzy plugh</answer>", "none": "<answer>None</answer>"}


def _answers(completion: str, gold: str) -> list[str]:
    """What to score: the extracted answer and, for answers that are no numbers, the whole text (a grid, a list).

    Only the kind of the expected answer (number or text) matters here, never its value.
    """
    answer = final_answer(completion)
    if is_number(gold):
        found = answer.rstrip(".") if is_number(answer) else stated_number(answer) or answer.rstrip(".")
        return [found] if found else []
    whole = completion.strip()
    return [each for each in dict.fromkeys((answer, whole)) if each and (each == answer or len(each) <= _LONGEST)]


def _spec(task: Task) -> Spec:
    spec = spec_of(task, Spec)
    if spec.dataset in gym.MISBEHAVING:
        raise RecordError("bad_scorer", f"the scorer of {spec.dataset} cannot be relied on")
    return spec
