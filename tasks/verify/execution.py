"""Verifiers that execute what a policy wrote: judged once wherever it turns up again, and repeated where one asks.

The key of a judgement is the hash of everything that decides it: the code (not the prose around it), the task's
specification, the verifier with its options (limits among them), the time limit where the gold solution's pace raised
it, and the sandbox's interpreter, packages, backend and mode. Time-outs, memory, trouble of the surroundings and
disagreement are never remembered: another moment may end otherwise.
"""

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.errors import LakeError, Unavailable
from schemas.ids import canonical_json, digest
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import Trust, VerdictKind
from tasks.verify.base import Judgement, Verifier, disputed
from tasks.verify.pace import known_pace, pace_of, stretched

if TYPE_CHECKING:
    from tasks.context import Context

_KEY_VERSION = 2
_LASTING = frozenset({VerdictKind.PASS, VerdictKind.FAIL})
# Codes of runs that were ended or never begun, by whom cannot always be told.
_ENDED = ("exited", "killed", "skipped", "start", "processes", "files")

_log = logging.getLogger("gristmill.verify")


class Recorded(Base, frozen=True, kw_only=True):
    """A judgement as it is remembered; `origin` names the trajectory (or task) that it was made for."""

    kind: VerdictKind
    reward: float
    reason: str
    evidence_json: str
    trust: Trust
    origin: str


class ExecutionVerifier(Verifier, frozen=True, kw_only=True):
    """A verifier that runs code. A subclass defines `subject` and `environment`.

    repeats: how often a candidate is judged, each time with another hash seed; judgements that differ make the verdict
    `disputed`, which is no reward (reward denoising).
    headroom: a candidate that ran out of time is judged again with limits of so many times what the task's gold
    solution takes on this machine, where that is more than the limits are; 0: never.
    """

    repeats: int = 1
    headroom: float = 10.0

    def subject(self, task: Task, completion: str) -> str | None:
        """What would be executed, as text; None where nothing would."""
        raise NotImplementedError(f"{type(self).__name__} must define subject()")

    def environment(self, task: Task, ctx: "Context") -> str:
        """What it would be executed with: interpreter, packages, backend, mode."""
        raise NotImplementedError(f"{type(self).__name__} must define environment()")

    def settle(self, task: Task, completion: str, ctx: "Context", origin: str = "") -> Judgement:
        """The remembered judgement of the same code, or else a new one."""
        cache, keys = ctx.judgements, self._keys(task, completion, ctx)
        if cache is None or not keys:
            return self.anew(task, completion, ctx)
        try:
            for key in keys:
                known = cache.get(key)
                if known is not None:
                    return _read(known)
        except (LakeError, Unavailable, msgspec.MsgspecError) as error:
            # A record that cannot be read costs time, never a verdict.
            _log.warning("A remembered judgement cannot be read and is made again: %s", error)
        found, limit_s = self._paced(task, completion, ctx)
        mine = keys[0] if limit_s is None else self.key(task, completion, ctx, limit_s)
        if mine is not None and is_lasting(found):
            try:
                cache.record(mine, _written(found, origin or task.id))
            except (LakeError, Unavailable) as error:
                _log.warning("A judgement cannot be remembered: %s", error)
        return found

    def key(self, task: Task, completion: str, ctx: "Context", limit_s: float | None = None) -> str | None:
        """The hash of everything that decides the judgement; None where nothing would be executed or remembered.

        limit_s: the wall-clock limit where the gold solution's pace raised it, else None.
        """
        subject = self.subject(task, completion)
        if subject is None or ctx.judgements is None:
            return None
        parts = [_KEY_VERSION, self.identity(), task.verifier.spec_json, subject, self.environment(task, ctx), limit_s]
        return digest(canonical_json(parts))

    def forget(self, task: Task, completion: str, ctx: "Context") -> None:
        """Removes the remembered judgement."""
        if ctx.judgements is not None:
            for key in self._keys(task, completion, ctx):
                ctx.judgements.forget(key)

    def anew(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """One judgement, or `repeats` of them that must agree; time limits follow the gold solution's pace."""
        return self._paced(task, completion, ctx)[0]

    def _keys(self, task: Task, completion: str, ctx: "Context") -> list[str]:
        """The keys of judgements that hold here: with the task's own limits, and with those of a known pace."""
        pace = known_pace(self, task) if self.headroom and task.gold is not None else None
        limits = [None, pace.limit_s] if pace is not None and pace.scale > 1.0 else [None]
        return [key for limit_s in limits if (key := self.key(task, completion, ctx, limit_s)) is not None]

    def _paced(self, task: Task, completion: str, ctx: "Context") -> tuple[Judgement, float | None]:
        """`anew`, and the wall-clock limit where it was raised."""
        first = self.judge(task, completion, ctx)
        if first.kind is VerdictKind.TIMEOUT and self.headroom and task.gold is not None:
            pace = pace_of(self, task, ctx)
            if pace.scale <= 1.0:
                return first._replace(evidence={**first.evidence, **pace.told()}), None
            slower, same = stretched(self, task, pace.scale)
            found = slower.judge(same, completion, ctx)
            return found._replace(evidence={**found.evidence, **pace.told()}), pace.limit_s
        seen = [first]
        while len(seen) < self.repeats and first.kind is not VerdictKind.UNPARSABLE:
            seen.append(self.rejudge(task, completion, ctx, len(seen)))
        return agreed(seen), None


def agreed(seen: list[Judgement]) -> Judgement:
    """The first of several judgements of one answer if all agree in kind and reward; else one that is no reward."""
    broken = next((each for each in seen if each.kind is VerdictKind.INFRASTRUCTURE), None)
    if broken is not None:
        return broken
    first = seen[0]
    if len(seen) == 1:
        return first
    if len({(each.kind, each.reward) for each in seen}) > 1:
        runs = [{"kind": each.kind.value, "reward": each.reward, "reason": each.reason} for each in seen]
        return disputed("disagreement", {"runs": runs}, first.trust)
    return first._replace(evidence={**first.evidence, "repeats": len(seen)}, lasting=all(e.lasting for e in seen))


def is_lasting(found: Judgement) -> bool:
    """Whether another run at another moment would surely end the same way."""
    return (
        found.kind in _LASTING
        and found.lasting
        and found.reward is not None
        and not found.reason.endswith(_ENDED)
        and "cached_from" not in found.evidence
    )


def _written(found: Judgement, origin: str) -> bytes:
    assert found.reward is not None
    row: dict[str, Any] = {"evidence_json": canonical_json(found.evidence), "trust": found.trust, "origin": origin}
    return msgspec.msgpack.encode(Recorded(kind=found.kind, reward=found.reward, reason=found.reason, **row))


def _read(data: bytes) -> Judgement:
    row = msgspec.msgpack.decode(data, type=Recorded)
    evidence = {**msgspec.json.decode(row.evidence_json), "cached_from": row.origin}
    return Judgement(row.kind, row.reward, row.reason, evidence, row.trust)
