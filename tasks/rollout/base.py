"""The base of every harness: tasks × teachers × samples are planned, rolled out all at once, and accounted for.

A harness defines one coroutine, `rollout`, which leads a teacher through a task by means of an Episode. All
rollouts of a batch run together on the model client's loop, so that an in-process engine sees large batches and
an endpoint is kept busy.
"""

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.errors import Unavailable, UserError
from schemas.ids import content_id, digest
from schemas.rows import DeadLetter
from schemas.task import Task
from schemas.trajectory import Policy
from schemas.vocabulary import ActionSpace, Kind, Stage
from tasks.client.client import together
from tasks.client.request import CallFailed, CallFailure
from tasks.client.teacher import Teacher
from tasks.operator import Effect, Item, Operator, Outcome, Pending, Plan, Result, Unit, WorkingSet, dead, keep
from tasks.rollout.episode import Episode, Finished

if TYPE_CHECKING:
    from jinja2 import Template

    from tasks.context import Context

_LOOKED_UP = 5000


class Harness(Operator, frozen=True, kw_only=True):
    """Leads teachers through tasks, one strategy a class.

    teachers: the policies, each an entry such as {use = "openai", ...}; empty: the recipe's own teacher.
    samples: trajectories per task and teacher. kinds: take only tasks of these kinds; empty: all.
    max_tokens: generated tokens per call, a number or a table by task kind such as {arithmetic = 24, default = 256}.
    """

    kind: ClassVar[Kind] = Kind.HARNESS
    stage: ClassVar[Stage] = Stage.ROLLOUT
    reads: ClassVar[Unit] = "task"
    effect: ClassVar[Effect] = "add"
    seeded: ClassVar[bool] = True
    batch_size: ClassVar[int] = 256
    # These multiply items and choose among them; each item's id names its teacher and sample, so that asking for
    # more samples, or adding a teacher, leaves what is there as it is.
    inert: ClassVar[frozenset[str]] = frozenset({"teachers", "samples", "kinds"})
    strategy: ClassVar[str] = ""
    action_space: ClassVar[ActionSpace] = ActionSpace.MESSAGE
    template: ClassVar[str] = ""

    teachers: tuple[dict[str, Any], ...] = ()
    samples: int = 1
    kinds: tuple[str, ...] = ()
    max_tokens: int | dict[str, int] = 512

    async def rollout(self, episode: Episode, ctx: "Context") -> str:
        """Leads the episode to its end and returns how it ended (a reason code, "ok" as a rule)."""
        raise NotImplementedError(f"{type(self).__name__} must define rollout()")

    def eligible(self, task: Task) -> bool:
        """Whether this strategy can be tried on the task."""
        return not self.kinds or task.kind in self.kinds

    def limit_for(self, task: Task) -> int:
        """Generated tokens per call on this task."""
        if isinstance(self.max_tokens, int):
            return self.max_tokens
        return self.max_tokens.get(task.kind, self.max_tokens.get("default", 512))

    def identity(self) -> dict[str, Any]:
        """The plug-in's identity with the hash of its prompt template."""
        return {**Operator.identity(self), "template": template_hash(self.template)}

    def render(self, block: str, **values: Any) -> str:
        """A block of the harness's template, without surrounding blank lines; an undefined name is an error."""
        return render(self.template, block, **values)

    def policies(self, ctx: "Context") -> list[Teacher]:
        """The teachers, built; a UserError when neither the entry nor the recipe names one."""
        entries = self.teachers or ((ctx.recipe.teacher,) if ctx.recipe.teacher is not None else ())
        if not entries:
            raise UserError(
                f"The harness '{self.plugin_id()}' has no teacher.",
                "Teachers: local (in this process), openai (any OpenAI-compatible URL), vllm (a child process).",
                'Add a table [teacher] with use = "local" to the recipe, or [[rollout.teachers]] to the entry.',
            )
        return [_teacher(ctx, entry) for entry in entries]

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per eligible task, teacher and sample."""
        fingerprint = self.fingerprint(ctx)
        identities = [teacher.identity() for teacher in self.policies(ctx)]
        items: list[Item] = []
        for start in range(0, len(inputs.tasks), _LOOKED_UP):
            for task in ctx.lake.tasks(inputs.tasks[start : start + _LOOKED_UP]):
                if self.eligible(task):
                    items.extend(
                        Item(
                            id=content_id("rollout", fingerprint, task.id, identity, sample),
                            ref=task.id,
                            group=task.id,
                            params={"teacher": index, "sample": sample},
                        )
                        for index, identity in enumerate(identities)
                        for sample in range(self.samples)
                    )
        return Plan(items=tuple(items), n_seen=len(inputs.tasks))

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Rolls out every item at once. A failed call makes its item a dead letter (tried again) or pending."""
        teachers, fingerprint = self.policies(ctx), self.fingerprint(ctx)
        tasks = {task.id: task for task in ctx.lake.tasks(list(dict.fromkeys(item.ref for item in items)))}
        ends: dict[str, Finished | CallFailure | Unavailable] = {}
        partial: dict[str, Episode] = {}

        async def one(item: Item) -> None:
            teacher, sample = teachers[item.params["teacher"]], item.params["sample"]
            episode = Episode(item, tasks[item.ref], teacher, sample, ctx.recipe.seed, ctx.client.complete)
            partial[item.id] = episode
            try:
                reason = await self.rollout(episode, ctx)
            except CallFailed as failed:
                ends[item.id] = failed.failure
            except Unavailable as away:
                ends[item.id] = away
            else:
                ends[item.id] = episode.finish(fingerprint, self.policy(teacher), self.action_space, reason)

        async def everything() -> None:
            await together(one(item) for item in items)

        ctx.client.run(everything())
        return self._result(items, ends, partial)

    def policy(self, teacher: Teacher) -> Policy:
        """Who acts, as far as it is known before the first call."""
        return Policy(
            teacher=teacher.label(),
            model=teacher.model_id(),
            revision=teacher.revision(),
            harness=self.plugin_id(),
            harness_version=f"{self.version}-{template_hash(self.template)[:8]}",
            strategy=self.strategy or self.plugin_id(),
        )

    def _result(
        self,
        items: Sequence[Item],
        ends: dict[str, Finished | CallFailure | Unavailable],
        partial: dict[str, Episode],
    ) -> Result:
        outcomes: list[Outcome] = []
        letters: list[DeadLetter] = []
        pending: list[Pending] = []
        rows: dict[str, list[Any]] = {"trajectories": [], "token_spans": [], "requests": []}
        for item in items:
            end = ends[item.id]
            # Calls before the one that failed were paid as well.
            rows["requests"].extend(partial[item.id].requests)
            if isinstance(end, Finished):
                rows["trajectories"].append(end.trajectory)
                rows["token_spans"].extend(end.spans)
                outcomes.append(keep(item, end.reason, outputs=(end.trajectory.id,)))
            elif isinstance(end, Unavailable):
                pending.append(Pending(item_id=item.id, reason=end.reason))
            else:
                if end.attempts:
                    rows["requests"].append(end.account())
                if end.pending:
                    pending.append(Pending(item_id=item.id, reason=end.cause.value))
                else:
                    letters.append(
                        dead(item, self.stage, end.first_cause.value, end.describe(), source=end.endpoint, retry=True)
                    )
        return Result(outcomes=tuple(outcomes), rows=rows, dead=tuple(letters), pending=tuple(pending))


def _teacher(ctx: "Context", entry: dict[str, Any]) -> Teacher:
    built = ctx.build(Kind.TEACHER, entry)
    if not isinstance(built, Teacher):
        raise UserError(f"The plug-in '{entry.get('use')}' is not a Teacher.")
    return built


@functools.cache
def _template(path: str) -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    file = Path(path)
    # The output is text for a model, not HTML: escaping would change what is asked.
    environment = Environment(loader=FileSystemLoader(file.parent), undefined=StrictUndefined, autoescape=False)  # noqa: S701
    return environment.get_template(file.name)


def render(path: str, block: str, **values: Any) -> str:
    """Block `block` of the template file at `path` with `values`."""
    template = _template(path)
    if block not in template.blocks:
        raise UserError(f"{path} has no block '{block}'.", f"It has: {', '.join(template.blocks)}.")
    return "".join(template.blocks[block](template.new_context(values))).strip()


@functools.cache
def template_hash(path: str) -> str:
    """The hash of a template's source; "" for none."""
    return digest(Path(path).read_bytes()) if path else ""


async def in_thread(work: Any, *args: Any) -> Any:
    """Runs blocking work (a sandbox) beside the client's loop."""
    return await asyncio.to_thread(work, *args)
