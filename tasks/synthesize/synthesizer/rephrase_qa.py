"""New wordings of proven tasks: a teacher rewrites the statement, and only faithful rewrites are kept.

    [[synthesize]]
    use = "rephrase_qa"
    kinds = ["code"]
    rewrites = 2

After AgenticMath's rephrasing agents (seed filter, paraphrase, check). A rewrite is kept when every number, name,
signature, expression and negation survives, its wording differs enough, and the task proves itself again under
it; else it is dropped with the reason (see `tasks.synthesize.rewrite`). What follows the first paragraph of a
prompt, such as the signature to write, is kept as it stands.
"""

import ast
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec

from schemas.errors import UserError
from schemas.ids import content_id, seed_for
from schemas.rows import DeadLetter
from schemas.task import Message, Task
from schemas.trajectory import Provenance
from schemas.vocabulary import Kind, Stage
from tasks.calls import FENCE
from tasks.operator import Item, Outcome, Pending, Plan, WorkingSet, dead, drop
from tasks.synthesize.base import Draft, Drafts, Synthesizer, identified
from tasks.synthesize.prompts import render
from tasks.synthesize.rewrite import MAX_SIMILARITY, extract, judge, split_prompt

if TYPE_CHECKING:
    from tasks.client.teacher import Teacher
    from tasks.context import Context


class RephraseQa(Synthesizer, frozen=True, kw_only=True):
    """Rewrites of the statements of earlier tasks.

    teacher: who rewrites; empty: the recipe's teacher.
    kinds: take only tasks of these kinds; empty: all. Tasks without a gold solution cannot be proven again.
    rewrites: how many rewrites of each task are asked for.
    limit: at most so many tasks are rewritten, in the order of the working set; 0: all.
    max_similarity: a rewrite with a greater share of common letter trigrams is too similar.
    max_tokens, temperature: of the teacher's answer.
    """

    teacher: dict[str, Any] | None = None
    kinds: tuple[str, ...] = ()
    rewrites: int = 1
    limit: int = 0
    max_similarity: float = MAX_SIMILARITY
    max_tokens: int = 96
    temperature: float = 0.8

    seeded: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("rephrase",)
    inert: ClassVar[frozenset[str]] = frozenset({"teacher", "kinds", "rewrites", "limit"})

    def fingerprint(self, ctx: "Context") -> str:
        """The operator's fingerprint with that of whoever answers, named here or in the recipe."""
        return content_id("operator", self.identity(), self._teacher(ctx).identity(), ctx.recipe.seed)

    def _teacher(self, ctx: "Context") -> "Teacher":
        entry = self.teacher or ctx.recipe.teacher
        if entry is None:
            raise UserError(
                "rephrase_qa has no teacher.",
                "It takes its own `teacher`, or else the recipe's.",
                'Write for example teacher = {use = "local"} at the top of the recipe.',
            )
        return cast("Teacher", ctx.build(Kind.TEACHER, entry))

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """`rewrites` items per eligible task: of the chosen kinds, with a gold solution, asked by one user message."""
        eligible = [
            task
            for task in ctx.lake.tasks(inputs.tasks)
            if task.gold is not None and task.prompt[-1].role == "user" and (not self.kinds or task.kind in self.kinds)
        ]
        chosen = eligible[: self.limit] if self.limit else eligible
        items = tuple(
            Item(id=content_id("item", "rephrase_qa", task.id, sample), ref=task.id, params={"sample": sample})
            for task in chosen
            for sample in range(self.rewrites)
        )
        return Plan(items=items, n_seen=len(inputs.tasks))

    def draft(self, items: Sequence[Item], ctx: "Context") -> Drafts:
        """Asks the teacher for every rewrite of the batch at once and judges the answers."""
        from tasks.client.request import CallFailure, ModelRequest

        seeds = ctx.lake.tasks([item.ref for item in items])
        fingerprint = self.fingerprint(ctx)
        asked = [
            ModelRequest(
                messages=({"role": "user", "content": render("rephrase", statement=_statement(task))},),
                item_id=item.id,
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                seed=seed_for(ctx.recipe.seed, "rephrase_qa", item.id),
                sample_index=item.params["sample"],
            )
            for item, task in zip(items, seeds, strict=True)
        ]
        drafts: list[Draft] = []
        outcomes: list[Outcome] = []
        letters: list[DeadLetter] = []
        pending: list[Pending] = []
        accounts = []
        for item, seed, reply in zip(items, seeds, ctx.client.complete_all(self._teacher(ctx), asked), strict=True):
            if isinstance(reply, CallFailure):
                if reply.attempts:
                    accounts.append(reply.account())
                if reply.pending:
                    pending.append(Pending(item_id=item.id, reason=reply.cause.value))
                else:
                    first, told = reply.first_cause.value, reply.describe()
                    letters.append(dead(item, Stage.SYNTHESIZE, first, told, source=reply.endpoint, retry=True))
                continue
            accounts.append(reply.account(item.id))
            made = accept(seed, reply.text, self.max_similarity)
            if isinstance(made, Task):
                drafts.append(Draft(item, identified(made, fingerprint)))
            else:
                reason, evidence = made
                outcomes.append(drop(item, reason, evidence=evidence))
        return Drafts(drafts, outcomes, letters, pending, {"requests": accounts})


def accept(seed: Task, reply: str, max_similarity: float = MAX_SIMILARITY) -> Task | tuple[str, dict[str, Any]]:
    """The rewritten task without an id, not yet proven; or the reason why the reply makes none, and its evidence."""
    *context, last = seed.prompt
    statement, rest = split_prompt(last.content)
    rewrite = extract(reply)
    judged = judge(statement, rewrite, task_names(seed), max_similarity)
    if judged.reason:
        return judged.reason, {**judged.evidence(), "rewrite": rewrite[:500]}
    return msgspec.structs.replace(
        seed,
        id="",
        prompt=(*context, Message(role="user", content=rewrite + rest)),
        parents=(seed.id,),
        provenance=Provenance(
            dataset=seed.provenance.dataset,
            record=seed.provenance.record,
            licence=seed.provenance.licence,
            reader="rephrase_qa",
        ),
    )


def task_names(task: Task) -> list[str]:
    """The names that belong to the task: its entry function, and the functions and parameters that its prompt shows."""
    spec = json.loads(task.verifier.spec_json)
    names = [spec["entry"]] if isinstance(spec.get("entry"), str) else []
    for block in FENCE.findall(task.prompt[-1].content):
        try:
            tree = ast.parse(block if block.rstrip().endswith("...") else f"{block.rstrip()} ...")
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                spelled = node.args
                names += [node.name, *(a.arg for a in (*spelled.posonlyargs, *spelled.args, *spelled.kwonlyargs))]
    return list(dict.fromkeys(names))


def _statement(task: Task) -> str:
    return split_prompt(task.prompt[-1].content)[0]
