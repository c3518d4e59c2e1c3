"""New wordings of proven tasks: a teacher rewrites the statement, and only faithful rewrites are kept.

    [[synthesize]]
    use = "rephrase_qa"
    kinds = ["code"]
    rewrites = 2

After AgenticMath's rephrasing agents (seed filter, paraphrase, check). A rewrite is kept when every number, name,
signature, expression and negation survives, its wording differs enough, and the task proves itself again under
it; else it is dropped with the reason (see `tasks.synthesize.rewrite`). What follows the first paragraph of a
prompt, such as the signature to write, is kept as it stands. What no rule can read, whether the words still mean the
same, is left to a likeness of embeddings, which tells another subject but not a subtle change: expect a few.
"""

import ast
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from schemas.ids import content_id, seed_for
from schemas.task import Message, Task
from schemas.trajectory import Provenance
from tasks.asking import ask, teacher_of
from tasks.calls import FENCE
from tasks.operator import Item, Outcome, Plan, WorkingSet, drop
from tasks.synthesize.base import Draft, Drafts, Synthesizer, chat, identified
from tasks.synthesize.rewrite import MAX_SIMILARITY, extract, judge, split_prompt

# Measured with all-MiniLM-L6-v2 on the handmade rewrites of tests/tasks/synthesize/rewrites.toml: 29 of 30
# paraphrases lie above it, and so do 4 % of pairs that have nothing to do with each other.
MIN_MEANING = 0.5

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
    min_meaning: least cosine of the embeddings of statement and rewrite (extra `embed`); 0: not looked at.
    max_tokens, temperature: of the teacher's answer.
    """

    teacher: dict[str, Any] | None = None
    kinds: tuple[str, ...] = ()
    rewrites: int = 1
    limit: int = 0
    max_similarity: float = MAX_SIMILARITY
    min_meaning: float = MIN_MEANING
    max_tokens: int = 96
    temperature: float = 0.8

    seeded: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("rephrase",)
    inert: ClassVar[frozenset[str]] = frozenset({"teacher", "kinds", "rewrites", "limit"})

    def fingerprint(self, ctx: "Context") -> str:
        """The operator's fingerprint with that of whoever answers, named here or in the recipe."""
        return content_id("operator", self.identity(), self._teacher(ctx).identity(), ctx.recipe.seed)

    def _teacher(self, ctx: "Context") -> "Teacher":
        return teacher_of(self.teacher, ctx, self.plugin_id())

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
        from tasks.client.request import ModelRequest

        seeds = dict(zip([item.id for item in items], ctx.lake.tasks([item.ref for item in items]), strict=True))
        fingerprint = self.fingerprint(ctx)
        requests = [
            ModelRequest(
                messages=chat("rephrase", statement=_statement(seeds[item.id])),
                item_id=item.id,
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                seed=seed_for(ctx.recipe.seed, "rephrase_qa", item.id),
                sample_index=item.params["sample"],
            )
            for item in items
        ]
        asked = ask(self._teacher(ctx), items, requests, self.stage, ctx)
        drafts: list[Draft] = []
        outcomes: list[Outcome] = []
        faithful: list[tuple[Item, Task]] = []
        for item, reply in asked.replies:
            made = accept(seeds[item.id], reply.text, self.max_similarity)
            if isinstance(made, Task):
                faithful.append((item, made))
            else:
                outcomes.append(drop(item, made[0], evidence=made[1]))
        alike = self._meanings([(_statement(seeds[item.id]), _statement(made)) for item, made in faithful])
        for (item, made), meaning in zip(faithful, alike, strict=True):
            evidence = {"meaning": round(meaning, 4)}
            if meaning < self.min_meaning:
                outcomes.append(drop(item, "other_meaning", evidence={**evidence, "rewrite": _statement(made)[:500]}))
            else:
                drafts.append(Draft(item, identified(made, fingerprint), evidence))
        return Drafts(drafts, outcomes, asked.dead, asked.pending, {"requests": asked.accounts})

    def _meanings(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of each pair of texts; 1 where it is not looked at. MissingExtra without the extra `embed`."""
        if not pairs or self.min_meaning <= 0:
            return [1.0] * len(pairs)
        from tasks.curate.similarity.minilm import embed

        ones, others = embed([one for one, _ in pairs]), embed([other for _, other in pairs])
        return [float(one @ other) for one, other in zip(ones, others, strict=True)]


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
