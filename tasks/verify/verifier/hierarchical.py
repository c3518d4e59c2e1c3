"""Three levels, each worth more than the one before: the answer can be parsed, is valid, and means the right thing.

A task's specification (JSON): a verifier for each level; a level left out is skipped.

    {"parse": {"use": "schema", "spec": {"schema": {}}},
     "valid": {"use": "schema", "spec": {"schema": {…}}},
     "semantic": {"use": "function_state", "spec": {…}}}

After QUASAR's hierarchical reward: parse < valid < semantic. A level is asked only when the one before it holds, so
that an expensive check never sees what cannot be read.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from schemas.errors import RecordError
from schemas.rows import Request
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import Trust, VerdictKind
from tasks.verify.base import Judgement, Verifier, spec_of
from tasks.verify.parts import Part, fingerprint_of, forget, least, part_of, task_of

if TYPE_CHECKING:
    from tasks.context import Context


class Spec(Base, frozen=True):
    """The verifier of each level."""

    semantic: Part
    parse: Part | None = None
    valid: Part | None = None


class Hierarchical(Verifier, frozen=True, kw_only=True):
    """The reward of the highest level that was reached; only an answer that holds in every level passes.

    parse_reward, valid_reward: what an answer gets that can be parsed, or is valid too, and goes no further.
    """

    parse_reward: float = 0.1
    valid_reward: float = 0.3

    def __post_init__(self) -> None:
        if not 0.0 <= self.parse_reward < self.valid_reward < 1.0:
            raise ValueError("0 <= parse_reward < valid_reward < 1 must hold")

    def fingerprint(self, ctx: "Context") -> str:
        """The operator's fingerprint with the recipe's teacher, whom a part may ask."""
        return fingerprint_of(self, ctx)

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """The levels in order, none of it remembered."""
        return self._climb(task, lambda part, at: part.anew(at, completion, ctx), ctx)

    def settle(self, task: Task, completion: str, ctx: "Context", origin: str = "") -> Judgement:
        """The levels in order, taking from the parts what they judged before."""
        return self._climb(task, lambda part, at: part.settle(at, completion, ctx, origin), ctx)

    def forget(self, task: Task, completion: str, ctx: "Context") -> None:
        """Removes what the parts remember."""
        spec = spec_of(task, Spec)
        forget(filter(None, (spec.parse, spec.valid, spec.semantic)), task, completion, ctx)

    def _climb(self, task: Task, ask: Callable[[Verifier, Task], Judgement], ctx: "Context") -> Judgement:
        spec = spec_of(task, Spec)
        levels = (("parse", spec.parse), ("valid", spec.valid), ("semantic", spec.semantic))
        if spec.parse is None and spec.valid is None:
            raise RecordError("bad_spec", "hierarchical: parse or valid is needed beside semantic")
        trust = Trust.OUTSIDE
        accounts: tuple[Request, ...] = ()
        evidence: dict[str, Any] = {"levels": []}
        reached = 0.0
        for name, part in levels:
            if part is None:
                continue
            found = ask(part_of(part, ctx), task_of(task, part))
            accounts += found.accounts
            if found.reward is None:
                return found._replace(accounts=accounts)
            trust = least(trust, found.trust)
            evidence["levels"].append({"level": name, "use": part.use, "kind": found.kind, "reason": found.reason})
            if found.kind is not VerdictKind.PASS:
                # What cannot be parsed, or hides something, earned nothing on the way.
                kind = VerdictKind.FAIL if reached and found.kind is VerdictKind.UNPARSABLE else found.kind
                earned = 0.0 if kind is VerdictKind.REFUSED else reached
                return Judgement(kind, earned, f"{name}:{found.reason}", evidence, trust, accounts=accounts)
            reached = self.parse_reward if name == "parse" else self.valid_reward
        return Judgement(VerdictKind.PASS, 1.0, "pass", evidence, trust, accounts=accounts)
