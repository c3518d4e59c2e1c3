"""Several verifiers judge one answer; their rewards are weighed, and a gate can end it early.

A task's specification (JSON):

    {"parts": [{"use": "schema", "spec": {…}, "weight": 1, "gate": true},
               {"use": "answer_check", "spec": {…}, "weight": 3}],
     "threshold": 1.0}
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.errors import RecordError
from schemas.rows import Request
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import Trust, VerdictKind
from tasks.verify.base import Judgement, Verifier, spec_of
from tasks.verify.execution import agreed
from tasks.verify.parts import Part, fingerprint_of, forget, least, part_of, task_of
from tasks.verify.ranges import Share

if TYPE_CHECKING:
    from tasks.context import Context


class Spec(Base, frozen=True):
    """The parts, in the order in which they are asked; `threshold`: the least weighted reward that passes."""

    parts: list[Part]
    threshold: Share = 1.0


class Composite(Verifier, frozen=True, kw_only=True):
    """The weighted mean of the parts' rewards.

    An infrastructure error of any part, or a dispute, is one of the whole; so is a refusal, whatever the part weighs:
    who tried to decide one verdict gets no reward for the others. The verdict is trusted as little as its
    least trusted part.
    repeats: how often the whole is judged anew; judgements that differ make the verdict `disputed`, no reward.
    """

    version: ClassVar[int] = 2

    repeats: int = 1

    def fingerprint(self, ctx: "Context") -> str:
        """The operator's fingerprint with the recipe's teacher, whom a part may ask."""
        return fingerprint_of(self, ctx)

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Asks the parts in order; a gate that does not pass ends it with its own kind and no reward."""
        return self._weigh(task, lambda part, at: part.judge(at, completion, ctx), ctx)

    def rejudge(self, task: Task, completion: str, ctx: "Context", run: int) -> Judgement:
        """Asks the parts again, each under conditions that differ from run to run."""
        return self._weigh(task, lambda part, at: part.rejudge(at, completion, ctx, run), ctx)

    def settle(self, task: Task, completion: str, ctx: "Context", origin: str = "") -> Judgement:
        """Once, taking from the parts what they judged before; or `repeats` times, each time anew."""
        if self.repeats == 1:
            return self._weigh(task, lambda part, at: part.settle(at, completion, ctx, origin), ctx)
        return self.anew(task, completion, ctx)

    def anew(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """`repeats` times without anything remembered."""
        if self.repeats == 1:
            return self._weigh(task, lambda part, at: part.anew(at, completion, ctx), ctx)
        return agreed([self.rejudge(task, completion, ctx, run) for run in range(self.repeats)])

    def forget(self, task: Task, completion: str, ctx: "Context") -> None:
        """Removes what the parts remember."""
        forget(spec_of(task, Spec).parts, task, completion, ctx)

    def _weigh(self, task: Task, ask: Callable[[Verifier, Task], Judgement], ctx: "Context") -> Judgement:
        spec = spec_of(task, Spec)
        total = sum(part.weight for part in spec.parts)
        if not spec.parts or total <= 0 or any(part.weight < 0 for part in spec.parts):
            raise RecordError("bad_spec", "composite: parts with weights of at least 0, not all 0, are needed")
        reward, trust = 0.0, Trust.OUTSIDE
        accounts: tuple[Request, ...] = ()
        evidence: dict[str, Any] = {"parts": []}
        for part in spec.parts:
            found = ask(part_of(part, ctx), task_of(task, part))
            accounts += found.accounts
            if found.reward is None:
                return found._replace(accounts=accounts)
            said = {"use": part.use, "kind": found.kind, "reason": found.reason, "reward": found.reward}
            if "cached_from" in found.evidence:
                said["cached_from"] = found.evidence["cached_from"]
            evidence["parts"].append(said)
            trust = least(trust, found.trust)
            if found.kind is VerdictKind.REFUSED:
                return Judgement(found.kind, 0.0, f"refused:{part.use}", evidence, trust, accounts=accounts)
            if part.gate and found.kind is not VerdictKind.PASS:
                return Judgement(found.kind, 0.0, f"gate:{part.use}", evidence, trust, accounts=accounts)
            reward += part.weight / total * found.reward
        reward = min(1.0, reward)
        # Sums of weights such as .1 + .2 + .7 miss 1 by a little.
        if reward >= spec.threshold - 1e-9:
            return Judgement(VerdictKind.PASS, reward, "pass", evidence, trust, accounts=accounts)
        return Judgement(VerdictKind.FAIL, reward, "below_threshold", evidence, trust, accounts=accounts)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing at all; the parts' own cheats belong to their own tasks."""
        return {"empty": "", "nonsense": "xyzzy plugh"}
