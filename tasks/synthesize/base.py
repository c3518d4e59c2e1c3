"""The base of every synthesizer: it drafts tasks, and here each draft proves itself before it is kept.

A draft whose gold solution does not pass repeatedly, or for which an empty or a cheating solution passes, is
dropped with the reason `unproven:<why>`; a proof that the surroundings prevented leaves the item pending.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from schemas.errors import Unavailable
from schemas.ids import content_id
from schemas.rows import DeadLetter
from schemas.task import Task
from schemas.vocabulary import Kind, Stage
from tasks.operator import Effect, Item, Operator, Outcome, Pending, Result, Unit, drop, keep
from tasks.prompts import messages, render, template_hash

if TYPE_CHECKING:
    from tasks.context import Context
    from tasks.verify.proof import Proof


_TEMPLATES = Path(__file__).parent / "templates"


class Draft(NamedTuple):
    """A task that an item became, not yet proven; `evidence` goes into the ledger with the decision."""

    item: Item
    task: Task
    evidence: dict[str, Any] = {}


class Drafts(NamedTuple):
    """What a batch of items became: drafts to prove, and what was already decided about the others.

    rows: side-table rows, such as the accounting of model calls.
    """

    drafts: Sequence[Draft] = ()
    outcomes: Sequence[Outcome] = ()
    dead: Sequence[DeadLetter] = ()
    pending: Sequence[Pending] = ()
    rows: dict[str, Sequence[Any]] = {}


class Synthesizer(Operator, frozen=True, kw_only=True):
    """Makes tasks. A subclass plans its items and defines `draft`; proof and ledger are the same for all.

    prompts: the names of the templates that the class renders; their hashes belong to its identity.
    """

    kind: ClassVar[Kind] = Kind.SYNTHESIZER
    stage: ClassVar[Stage] = Stage.SYNTHESIZE
    reads: ClassVar[Unit] = "task"
    effect: ClassVar[Effect] = "add"
    batch_size: ClassVar[int] = 32
    prompts: ClassVar[tuple[str, ...]] = ()

    def identity(self) -> dict[str, Any]:
        """The plug-in's identity with the hashes of its prompt templates."""
        return {**Operator.identity(self), "prompts": {name: template_hash(_template(name)) for name in self.prompts}}

    def draft(self, items: Sequence[Item], ctx: "Context") -> Drafts:
        """Drafts the tasks of a batch; every item is in exactly one of the four lists."""
        raise NotImplementedError(f"{type(self).__name__} must define draft()")

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Drafts the tasks and keeps those that prove themselves."""
        made = self.draft(items, ctx)
        outcomes, pending, tasks = list(made.outcomes), list(made.pending), []
        # A proof waits for jails most of its time; the sandbox has one slot per core.
        with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="prove") as pool:
            proofs = list(pool.map(lambda draft: _proven(draft.task, ctx), made.drafts))
        for (item, task, evidence), proof in zip(made.drafts, proofs, strict=True):
            known = {**evidence, "task": task.name or task.id}
            if isinstance(proof, Unavailable):
                pending.append(Pending(item_id=item.id, reason=proof.reason))
            elif proof.ok:
                tasks.append(task)
                limits = {key: proof.evidence[key] for key in ("gold_s", "limit_s") if key in proof.evidence}
                outcomes.append(keep(item, evidence={**known, **limits}, outputs=(task.id,)))
            else:
                outcomes.append(drop(item, f"unproven:{proof.reason}", evidence={**known, "proof": proof.evidence}))
        return Result(
            outcomes=tuple(outcomes),
            rows={**made.rows, "tasks": tasks},
            dead=tuple(made.dead),
            pending=tuple(pending),
        )


def prompt(name: str, **values: Any) -> str:
    """The text of this stage's template `name` with `values`."""
    return render(_template(name), **values)


def chat(name: str, **values: Any) -> tuple[dict[str, str], ...]:
    """The messages of this stage's template `name` with `values`."""
    return messages(_template(name), **values)


def _template(name: str) -> Path:
    return _TEMPLATES / f"{name}.j2"


def _proven(task: Task, ctx: "Context") -> "Proof | Unavailable":
    """The proof of a task, or the trouble of the surroundings that prevented it."""
    from tasks.verify.proof import prove

    try:
        return prove(task, ctx)
    except Unavailable as error:
        return error


def identified(task: Task, fingerprint: str) -> Task:
    """The task under its content id; provenance names files and readers, which never change what is asked."""
    payload = msgspec.to_builtins(task)
    for volatile in ("id", "parents", "provenance"):
        payload.pop(volatile)
    return msgspec.structs.replace(task, id=content_id("task", task.parents, fingerprint, payload))
