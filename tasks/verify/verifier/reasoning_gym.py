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
from tasks.verify import gym
from tasks.verify.base import Judgement, Verifier, failed, passed, spec_of, unparsable
from tasks.verify.extract import final_answer, is_number, stated_number
from tasks.verify.worker import WorkerDied, WorkerFailed, WorkerTimeout, pool

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
        answer = _answer(completion, str(spec.entry.get("answer")))
        if not answer:
            return unparsable("no_answer")
        if len(answer) > _LONGEST:
            return unparsable("too_long", {"characters": len(answer)})
        evidence: dict[str, Any] = {"answer": answer[:300], "dataset": spec.dataset}
        request = {**msgspec.to_builtins(spec), "answer": answer}
        try:
            score = pool("tasks.verify.gym:score").call(request, self.timeout_s)
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


def _answer(completion: str, gold: str) -> str:
    """Only the kind of the expected answer (number or text) matters here, never its value."""
    answer = final_answer(completion)
    if is_number(gold) and not is_number(answer):
        return stated_number(answer) or answer
    return answer.rstrip(".") if is_number(gold) else answer


def _spec(task: Task) -> Spec:
    spec = spec_of(task, Spec)
    if spec.dataset in gym.MISBEHAVING:
        raise RecordError("bad_scorer", f"the scorer of {spec.dataset} cannot be relied on")
    if spec.dataset in gym.EVALUATING:
        raise RecordError("unsafe_scorer", f"the scorer of {spec.dataset} evaluates the answer as code")
    return spec
