"""The base of every verifier: who is judged, how often, and what becomes of a judgement.

A verifier defines `judge`: a task and the text that a policy answered with give one Judgement. The stage, a
trainer's reward function and the proof of a task all go through it:

    verifier.score(task, completion, ctx).reward

An infrastructure error is no judgement: it has no reward, and the stage leaves the item for the next run.
"""

import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from schemas.errors import FaultError, RecordError, Unavailable, UserError
from schemas.ids import canonical_json, content_id, digest
from schemas.rows import Verdict
from schemas.task import Task
from schemas.trajectory import Trajectory, text_of
from schemas.vocabulary import Kind, Source, Stage, Trust, VerdictKind
from tasks.operator import Effect, Item, Operator, Pending, Plan, Result, Unit, WorkingSet, dead, keep, select_ids

if TYPE_CHECKING:
    from tasks.context import Context


_S = TypeVar("_S", bound=msgspec.Struct)


class Judgement(NamedTuple):
    """What a verifier found. `reward` is in [0, 1], None only for an infrastructure error; `reason` a short code."""

    kind: VerdictKind
    reward: float | None
    reason: str = ""
    evidence: Mapping[str, Any] = {}
    trust: Trust = Trust.OUTSIDE


def passed(evidence: Mapping[str, Any] | None = None, reason: str = "pass") -> Judgement:
    """Full reward."""
    return Judgement(VerdictKind.PASS, 1.0, reason, evidence or {})


def failed(reason: str, evidence: Mapping[str, Any] | None = None, reward: float = 0.0) -> Judgement:
    """Not solved; `reward` for a partial success."""
    return Judgement(VerdictKind.FAIL, reward, reason, evidence or {})


def unparsable(reason: str, evidence: Mapping[str, Any] | None = None) -> Judgement:
    """The text holds no answer that could be judged."""
    return Judgement(VerdictKind.UNPARSABLE, 0.0, reason, evidence or {})


def infrastructure(reason: str, detail: str = "") -> Judgement:
    """Nothing was judged, and nothing is said about the answer."""
    return Judgement(VerdictKind.INFRASTRUCTURE, None, reason, {"detail": detail})


class Verifier(Operator, frozen=True, kw_only=True):
    """Judges answers. A subclass defines `judge`, and `answer` where the last agent message is not the answer."""

    kind: ClassVar[Kind] = Kind.VERIFIER
    stage: ClassVar[Stage] = Stage.VERIFY
    reads: ClassVar[Unit] = "trajectory"
    effect: ClassVar[Effect] = "annotate"
    batch_size: ClassVar[int] = 64

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Judges one answer. Raises RecordError for a task whose specification cannot be used."""
        raise NotImplementedError(f"{type(self).__name__} must define judge()")

    def rejudge(self, task: Task, completion: str, ctx: "Context", run: int) -> Judgement:
        """Like `judge`, under conditions that differ from run to run where a flaky task could show it."""
        return self.judge(task, completion, ctx)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Answers that must not pass, by name; a task proves itself against them."""
        return {"empty": ""}

    def answer(self, task: Task, trajectory: Trajectory) -> str:
        """The text to judge: what the agent said last."""
        return last_message(trajectory)

    def score(self, task: Task, completion: str, ctx: "Context") -> Verdict:
        """The verdict on a completion that is not (yet) a stored trajectory."""
        return self.verdict(self.judge(task, completion, ctx), ctx, [task.id, digest(completion)])

    def score_all(self, pairs: Sequence[tuple[Task, str]], ctx: "Context") -> list[Verdict]:
        """`score` of every (task, completion), in order; equal pairs are judged once, several at a time."""
        judged = self._judge_all(pairs, ctx)
        verdicts = []
        for (task, completion), found in zip(pairs, judged, strict=True):
            if isinstance(found, RecordError):
                raise found
            verdicts.append(self.verdict(found, ctx, [task.id, digest(completion)]))
        return verdicts

    def check(self, task: Task, trajectory: Trajectory, ctx: "Context") -> Verdict:
        """The one verdict of this verifier on a trajectory."""
        return self.verdict(self.judge(task, self.answer(task, trajectory), ctx), ctx, [], trajectory.id)

    def verdict(self, found: Judgement, ctx: "Context", key: Sequence[str] = (), trajectory_id: str = "") -> Verdict:
        """A judgement as a row; refuses a reward that is not a number in [0, 1]."""
        reward = found.reward
        if (reward is None) is not (found.kind is VerdictKind.INFRASTRUCTURE) or (
            reward is not None and not (math.isfinite(reward) and 0.0 <= reward <= 1.0)
        ):
            raise FaultError(f"Verifier '{self.plugin_id()}' gave the reward {reward!r} with the kind {found.kind}.")
        return Verdict(
            id=content_id("verdict", self.fingerprint(ctx), trajectory_id, *key),
            trajectory_id=trajectory_id,
            verifier=self.plugin_id(),
            kind=found.kind,
            reward=None if reward is None else float(reward),
            trust=found.trust,
            evidence_json=canonical_json({"reason": found.reason, **found.evidence}),
            parents=(trajectory_id,) if trajectory_id else (),
        )

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per trajectory whose task names this verifier."""
        ids = select_ids(self.reads, inputs)
        rows = ctx.lake.sql(
            'select t.id, t.task_id from trajectories t join tasks k on k.id = t.task_id where k.verifier."use" = ? '
            "and t.id in (select id from ids)",
            ids=list(ids),
            params=[self.plugin_id()],
        ).to_pylist()
        tasks = {row["id"]: row["task_id"] for row in rows}
        items = tuple(Item(id=ref, ref=ref, params={"task": tasks[ref]}) for ref in ids if ref in tasks)
        return Plan(items=items, n_seen=len(ids))

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Judges every trajectory of the batch; equal answers to one task are judged once."""
        trajectories = ctx.lake.trajectories([item.ref for item in items])
        tasks = ctx.lake.tasks([item.params["task"] for item in items])
        judged: dict[str, Judgement | RecordError] = {}
        pairs: dict[str, tuple[Task, str]] = {}
        for item, task, one in zip(items, tasks, trajectories, strict=True):
            try:
                pairs[item.id] = (task, self.answer(task, one))
            except RecordError as error:
                judged[item.id] = error
        judged |= zip(pairs, self._judge_all(list(pairs.values()), ctx), strict=True)
        outcomes, rows, letters, pending = [], [], [], []
        for item in items:
            found = judged[item.id]
            if isinstance(found, RecordError):
                letters.append(dead(item, self.stage, found.reason, found.detail))
            elif found.kind is VerdictKind.INFRASTRUCTURE:
                pending.append(Pending(item_id=item.id, reason=f"infrastructure:{found.reason}"))
            else:
                verdict = self.verdict(found, ctx, [], item.ref)
                rows.append(verdict)
                outcomes.append(keep(item, found.kind.value, score=verdict.reward))
        return Result(outcomes=tuple(outcomes), rows={"verdicts": rows}, dead=tuple(letters), pending=tuple(pending))

    def _judge_all(self, pairs: Sequence[tuple[Task, str]], ctx: "Context") -> list[Judgement | RecordError]:
        mine = canonical_json(self.identity())
        keys = [digest("\0".join((mine, task.id, task.verifier.spec_json, completion))) for task, completion in pairs]
        with _lock:
            memory = _judged.setdefault(ctx, {})
            known = {key: memory[key] for key in keys if key in memory}
        todo = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}

        def one(pair: tuple[Task, str]) -> Judgement | RecordError:
            try:
                return self.judge(pair[0], pair[1], ctx)
            except RecordError as error:
                return error
            except Unavailable as error:
                return infrastructure(error.reason, error.detail)

        workers = min(len(todo), len(os.sched_getaffinity(0)))
        if workers <= 1:
            found = dict(zip(todo, map(one, todo.values()), strict=True))
        else:
            with ThreadPoolExecutor(workers, thread_name_prefix="verify") as pool:
                found = dict(zip(todo, pool.map(one, todo.values()), strict=True))
        with _lock:
            if len(memory) + len(found) > _REMEMBERED:
                memory.clear()
            # Trouble of the surroundings is never remembered: the next run asks again.
            memory.update({key: each for key, each in found.items() if _is_sure(each)})
        return [known[key] if key in known else found[key] for key in keys]


def spec_of(task: Task, shape: type[_S]) -> _S:
    """The task's specification; RecordError `bad_spec` when it does not fit."""
    try:
        return msgspec.json.decode(task.verifier.spec_json, type=shape)
    except msgspec.MsgspecError as error:
        raise RecordError("bad_spec", f"{task.verifier.use}: {error}") from error


# What each run has judged: a small model says the same thing often, and a trainer asks again at every step.
_judged: "WeakKeyDictionary[Context, dict[str, Judgement | RecordError]]" = WeakKeyDictionary()
_lock = threading.Lock()
_REMEMBERED = 20_000


def _is_sure(found: Judgement | RecordError) -> bool:
    return isinstance(found, RecordError) or found.kind is not VerdictKind.INFRASTRUCTURE


def last_message(trajectory: Trajectory) -> str:
    """The text of the last agent step that says anything; "" when there is none."""
    return next(agent_messages(trajectory), "")


def agent_messages(trajectory: Trajectory) -> Iterator[str]:
    """The texts of the agent's own steps, the last one first."""
    for step in reversed(trajectory.steps):
        if step.source is Source.AGENT and (text := text_of(step.content)).strip():
            yield text


def verifier_of(task: Task, ctx: "Context") -> Verifier:
    """The verifier that a task names, with its default options, built once per process."""
    built = ctx.build(Kind.VERIFIER, {"use": task.verifier.use})
    if not isinstance(built, Verifier):
        raise UserError(f"The verifier '{task.verifier.use}' of task {task.id} is not a Verifier.")
    return built
