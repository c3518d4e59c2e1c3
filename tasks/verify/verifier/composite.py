"""Several verifiers judge one answer; their rewards are weighed, and a gate can end it early.

A task's specification (JSON):

    {"parts": [{"use": "schema", "spec": {…}, "weight": 1, "gate": true},
               {"use": "answer_check", "spec": {…}, "weight": 3}],
     "threshold": 1.0}
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemas.errors import RecordError
from schemas.ids import canonical_json
from schemas.task import Task, VerifierSpec
from schemas.trajectory import Base
from schemas.vocabulary import Kind, Trust, VerdictKind
from tasks.verify.base import Judgement, Verifier, spec_of

if TYPE_CHECKING:
    from tasks.context import Context


class Part(Base, frozen=True):
    """One verifier: its id, its own specification and options, its weight; a gate must pass or nothing counts."""

    use: str
    spec: dict[str, Any] = {}
    options: dict[str, Any] = {}
    weight: float = 1.0
    gate: bool = False


class Spec(Base, frozen=True):
    """The parts, in the order in which they are asked; `threshold`: the least weighted reward that passes."""

    parts: list[Part]
    threshold: float = 1.0


class Composite(Verifier, frozen=True, kw_only=True):
    """The weighted mean of the parts' rewards.

    An infrastructure error of any part is one of the whole. The verdict is trusted as little as its least trusted part.
    """

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Asks the parts in order; a gate that does not pass ends it with its own kind and no reward."""
        spec = spec_of(task, Spec)
        total = sum(part.weight for part in spec.parts)
        if not spec.parts or total <= 0 or any(part.weight < 0 for part in spec.parts):
            raise RecordError("bad_spec", "composite: parts with weights of at least 0, not all 0, are needed")
        reward, trust, kinds = 0.0, Trust.OUTSIDE, []
        evidence: dict[str, Any] = {"parts": []}
        for part in spec.parts:
            found = _part(part, ctx).judge(_task(task, part), completion, ctx)
            if found.kind is VerdictKind.INFRASTRUCTURE or found.reward is None:
                return found
            evidence["parts"].append(
                {"use": part.use, "kind": found.kind, "reason": found.reason, "reward": found.reward}
            )
            trust = Trust.INSIDE if found.trust is Trust.INSIDE else trust
            kinds.append(found.kind)
            if part.gate and found.kind is not VerdictKind.PASS:
                return Judgement(found.kind, 0.0, f"gate:{part.use}", evidence, trust)
            reward += part.weight / total * found.reward
        reward = min(1.0, reward)
        # Sums of weights such as .1 + .2 + .7 miss 1 by a little.
        if reward >= spec.threshold - 1e-9:
            return Judgement(VerdictKind.PASS, reward, "pass", evidence, trust)
        kind = VerdictKind.REFUSED if VerdictKind.REFUSED in kinds else VerdictKind.FAIL
        return Judgement(kind, reward if kind is VerdictKind.FAIL else 0.0, "below_threshold", evidence, trust)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing at all; the parts' own cheats belong to their own tasks."""
        return {"empty": "", "nonsense": "xyzzy plugh"}


def _part(part: Part, ctx: "Context") -> Verifier:
    built = ctx.build(Kind.VERIFIER, {"use": part.use, **part.options})
    if not isinstance(built, Verifier) or isinstance(built, Composite):
        raise RecordError("bad_spec", f"composite: '{part.use}' cannot be a part")
    return built


def _task(task: Task, part: Part) -> Task:
    return Task(
        id=f"{task.id}/{part.use}",
        kind=task.kind,
        prompt=task.prompt,
        verifier=VerifierSpec(use=part.use, spec_json=canonical_json(part.spec)),
        gold=task.gold,
        environment_json=task.environment_json,
    )
