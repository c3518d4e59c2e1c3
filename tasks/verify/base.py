"""The base of every verifier: who is judged, how often, and what becomes of a judgement.

A verifier defines `judge`: a task and the text that a policy answered with give one Judgement. The stage, a
trainer's reward function and the proof of a task all go through it:

    verifier.score(task, completion, ctx).reward

`settle` is what they ask: it may answer from what was judged before, or judge several times; `judge` always judges.
An infrastructure error is no judgement: it has no reward, and the stage leaves the item for the next run.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import msgspec

from schemas.errors import FaultError, RecordError, Unavailable, UserError
from schemas.ids import canonical_json, content_id, digest
from schemas.rows import Request, Verdict
from schemas.task import Task
from schemas.trajectory import Trajectory, text_of
from schemas.vocabulary import NO_JUDGEMENT, Kind, Source, Stage, Trust, VerdictKind
from tasks.operator import Effect, Item, Operator, Pending, Plan, Result, Unit, WorkingSet, dead, keep
from tasks.verify.memory import Found, memory
from tasks.verify.plans import plan_trajectories
from tasks.verify.trouble import Unfit, own_trouble

if TYPE_CHECKING:
    from tasks.context import Context


_S = TypeVar("_S", bound=msgspec.Struct)


class Judgement(NamedTuple):
    """What a verifier found. `reward` is in [0, 1]; `reason` a short code.

    reward is None for an infrastructure error, for judgements that disagree, and where a model was asked whose answer
    could not be read. lasting: whether the same answer would surely be judged the same at another moment. accounts:
    the model calls that were made for it.
    """

    kind: VerdictKind
    reward: float | None
    reason: str = ""
    evidence: Mapping[str, Any] = {}
    trust: Trust = Trust.OUTSIDE
    lasting: bool = True
    accounts: tuple[Request, ...] = ()


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


def disputed(reason: str, evidence: Mapping[str, Any], trust: Trust = Trust.OUTSIDE) -> Judgement:
    """Judgements of one answer disagree: it is neither right nor wrong, and no reward."""
    return Judgement(VerdictKind.DISPUTED, None, reason, evidence, trust, lasting=False)


class Verifier(Operator, frozen=True, kw_only=True):
    """Judges answers. A subclass defines `judge`, and `answer` where the last agent message is not the answer."""

    kind: ClassVar[Kind] = Kind.VERIFIER
    stage: ClassVar[Stage] = Stage.VERIFY
    reads: ClassVar[Unit] = "trajectory"
    effect: ClassVar[Effect] = "annotate"
    batch_size: ClassVar[int] = 64

    def workers(self) -> int:
        """How many answers are judged at a time."""
        return len(os.sched_getaffinity(0))

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Judges one answer. Raises RecordError for a task whose specification cannot be used."""
        raise NotImplementedError(f"{type(self).__name__} must define judge()")

    def rejudge(self, task: Task, completion: str, ctx: "Context", run: int) -> Judgement:
        """Like `judge`, under conditions that differ from run to run where a flaky task could show it."""
        return self.judge(task, completion, ctx)

    def anew(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """The judgement that counts, whatever was judged before."""
        return self.judge(task, completion, ctx)

    def settle(self, task: Task, completion: str, ctx: "Context", origin: str = "") -> Judgement:
        """The judgement that counts. `origin` names the trajectory whose answer this is, "" for none."""
        return self.anew(task, completion, ctx)

    def forget(self, task: Task, completion: str, ctx: "Context") -> None:
        """Makes sure that no later judgement of this answer is taken from what is remembered."""

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Answers that must not pass, by name; a task proves itself against them."""
        return {"empty": ""}

    def answer(self, task: Task, trajectory: Trajectory) -> str:
        """The text to judge: what the agent said last."""
        return last_message(trajectory)

    def score(self, task: Task, completion: str, ctx: "Context") -> Verdict:
        """The verdict on a completion that is not (yet) a stored trajectory."""
        return self.verdict(self.settle(task, completion, ctx), ctx, [task.id, digest(completion)])

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
        found = self.settle(task, self.answer(task, trajectory), ctx, trajectory.id)
        return self.verdict(found, ctx, [], trajectory.id)

    def verdict(self, found: Judgement, ctx: "Context", key: Sequence[str] = (), trajectory_id: str = "") -> Verdict:
        """A judgement as a row; refuses a reward that is not a number in [0, 1], or missing where it may not be."""
        reward = found.reward
        if reward is None:
            asked = found.kind is VerdictKind.UNPARSABLE and found.trust is Trust.MODEL
            wrong = not asked and found.kind not in NO_JUDGEMENT
        else:
            wrong = found.kind in NO_JUDGEMENT or not (math.isfinite(reward) and 0.0 <= reward <= 1.0)
        if wrong:
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
        return plan_trajectories(self.reads, inputs, ctx, self.plugin_id())

    def tasks_of(self, items: Sequence[Item], trajectories: Sequence[Trajectory], ctx: "Context") -> list[Task]:
        """The task of each item."""
        return ctx.lake.tasks([item.params["task"] for item in items])

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Judges every trajectory of the batch; equal answers to one task are judged once."""
        trajectories = ctx.lake.trajectories([item.ref for item in items])
        tasks = self.tasks_of(items, trajectories, ctx)
        judged: dict[str, Judgement | RecordError] = {}
        pairs: dict[str, tuple[Task, str]] = {}
        for item, task, one in zip(items, tasks, trajectories, strict=True):
            try:
                with own_trouble(task, ctx):
                    pairs[item.id] = (task, self.answer(task, one))
            except RecordError as error:
                judged[item.id] = error
        origins = [item.ref for item in items if item.id in pairs]
        judged |= zip(pairs, self._judge_all(list(pairs.values()), ctx, origins), strict=True)
        outcomes, rows, letters, pending = [], [], [], []
        accounts: dict[str, Request] = {}
        for item in items:
            found = judged[item.id]
            for account in found.accounts if isinstance(found, Judgement | AskFailed) else ():
                accounts[account.id] = account
            if isinstance(found, RecordError):
                again = isinstance(found, AskFailed | Unfit)
                letters.append(dead(item, self.stage, found.reason, found.detail, retry=again))
            elif found.kind is VerdictKind.INFRASTRUCTURE:
                pending.append(Pending(item_id=item.id, reason=f"infrastructure:{found.reason}"))
            else:
                verdict = self.verdict(found, ctx, [], item.ref)
                rows.append(verdict)
                outcomes.append(keep(item, found.kind.value, score=verdict.reward))
        written: dict[str, Sequence[Any]] = {"verdicts": rows}
        if accounts:
            written["requests"] = list(accounts.values())
        return Result(outcomes=tuple(outcomes), rows=written, dead=tuple(letters), pending=tuple(pending))

    def _judge_all(
        self, pairs: Sequence[tuple[Task, str]], ctx: "Context", origins: Sequence[str] | None = None
    ) -> list[Judgement | RecordError]:
        """Each pair's judgement or error, in order; one judgement for equal pairs."""
        mine = self.fingerprint(ctx)
        keys = [digest("\0".join((mine, task.id, task.verifier.spec_json, completion))) for task, completion in pairs]
        origins = origins or [""] * len(pairs)
        known = memory.known(ctx, keys)
        todo = {
            key: (*pair, origin) for key, pair, origin in zip(keys, pairs, origins, strict=True) if key not in known
        }

        def one(work: tuple[Task, str, str]) -> Judgement | RecordError:
            try:
                with own_trouble(work[0], ctx):
                    return self.settle(work[0], work[1], ctx, work[2])
            except RecordError as error:
                return error
            except Unavailable as error:
                return infrastructure(error.reason, error.detail)

        workers = min(len(todo), self.workers())
        if workers <= 1:
            judged = list(map(one, todo.values()))
        else:
            with ThreadPoolExecutor(workers, thread_name_prefix="verify") as pool:
                judged = list(pool.map(one, todo.values()))
        found = {key: Found(each, todo[key][2]) for key, each in zip(todo, judged, strict=True)}
        # Trouble of the surroundings is never remembered: the next run asks again.
        memory.learn(ctx, {key: each for key, each in found.items() if _is_sure(each.judged)})
        known |= found
        return [_copied(known[key], origin) for key, origin in zip(keys, origins, strict=True)]


class AskFailed(RecordError):
    """A model call that gave no answer; the next run asks again. `accounts` are the calls made for it so far."""

    def __init__(self, reason: str, detail: str, accounts: tuple[Request, ...]) -> None:
        self.accounts = accounts
        super().__init__(reason, detail)


def _copied(found: "Found[Judgement | RecordError]", origin: str) -> Judgement | RecordError:
    """The judgement as it stands, or marked as taken over from the trajectory that it was made for."""
    judged = found.judged
    if isinstance(judged, RecordError) or not found.origin or found.origin == origin:
        return judged
    return judged._replace(evidence={"cached_from": found.origin, **judged.evidence})


def spec_of(task: Task, shape: type[_S]) -> _S:
    """The task's specification; RecordError `bad_spec` when it does not fit."""
    try:
        return msgspec.json.decode(task.verifier.spec_json, type=shape)
    except msgspec.MsgspecError as error:
        raise RecordError("bad_spec", f"{task.verifier.use}: {error}") from error


def _is_sure(found: Judgement | RecordError) -> bool:
    if isinstance(found, RecordError):
        return not isinstance(found, AskFailed | Unfit)
    return found.kind not in NO_JUDGEMENT


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
