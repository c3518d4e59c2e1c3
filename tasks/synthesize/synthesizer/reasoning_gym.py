"""Procedural reasoning tasks from the reasoning-gym package, each with its own scorer.

    [[synthesize]]
    use = "reasoning_gym"
    dataset = "chain_sum"
    count = 40
    config = {min_terms = 2, max_terms = 2, min_digits = 1, max_digits = 1}

The data sets are generators: the same seed and configuration give the same items in every process, so an item
is (data set, configuration, seed, index) and nothing has to be downloaded or stored beside the task.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.errors import UserError
from schemas.ids import canonical_json, content_id, seed_for
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Provenance
from tasks.operator import Item, Plan, WorkingSet
from tasks.synthesize.base import Draft, Drafts, Synthesizer, identified, prompt

if TYPE_CHECKING:
    from tasks.context import Context

# Tried with reasoning-gym 0.1.25: gold answers, "", a nonsense word and None against each scorer, and the same
# items in two processes with different hash seeds.
_NEEDS = "it combines other data sets and has none of its own"
_GOLD = "its scorer does not accept its own gold answer"
_NONE = "its scorer rewards a missing answer"
_HASH = "its items differ from process to process"
REFUSED: dict[str, str] = {
    "boxnet": _GOLD,
    "composite": _NEEDS,
    "countdown": _NONE,
    "fraction_simplification": _NONE,
    "game_of_life_halting": "its scorer accepts any answer",
    "graph_color": _GOLD,
    "prime_factorization": "its scorer fails on an answer that is no number",
    "propositional_logic": _GOLD,
    "puzzle24": _NONE,
    "rubiks_cube": _GOLD,
    "rush_hour": _GOLD,
    "isomorphic_strings": _HASH,
    "knight_swap": _HASH,
    "ransom_note": _HASH,
    "word_ladder": _HASH,
    "polynomial_multiplication": _HASH,
}

# How an answer of several lines is marked off from the words around it.
_TAGGED = "Put the final answer between <answer> and </answer>."

# A small configuration space repeats itself: so many draws per wanted task, then the rest is left out.
_DRAWS = 20


class ReasoningGym(Synthesizer, frozen=True, kw_only=True):
    """Tasks of one reasoning-gym data set, all different.

    dataset: the name of the data set, such as chain_sum, basic_arithmetic, products.
    count: how many different tasks (fewer when the configuration has fewer).
    config: the data set's own options, such as {max_terms = 2}.
    seed: together with the recipe's seed it chooses the items.
    task_kind: the family name in reports.
    instruction: what is asked about the form of an answer of one line, after the question; empty for nothing.
    """

    dataset: str
    count: int = 50
    config: dict[str, Any] = {}
    seed: int = 0
    task_kind: str = "arithmetic"
    instruction: str = "Answer with the result only."

    seeded: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("question",)
    inert: ClassVar[frozenset[str]] = frozenset({"count"})

    def __post_init__(self) -> None:
        if self.dataset in REFUSED:
            raise ValueError(f"data set '{self.dataset}' is refused: {REFUSED[self.dataset]}")

    def refuse_early(self, folder: Path) -> None:
        """Refuses an unknown data set, and a configuration that it does not take."""
        self._source(0, 1)

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """The first `count` different questions; repeats are seen and passed over."""
        seed = seed_for(ctx.recipe.seed, "reasoning_gym", self.dataset, self.seed) % 2**31
        source = self._source(seed, self.count * _DRAWS)
        items: dict[str, Item] = {}
        seen = 0
        for index in range(self.count * _DRAWS):
            seen += 1
            question = source[index]["question"]
            item_id = content_id("item", "reasoning_gym", self.dataset, self.config, question)
            items.setdefault(item_id, Item(id=item_id, ref=item_id, params={"seed": seed, "index": index}))
            if len(items) == self.count:
                break
        return Plan(items=tuple(items.values()), n_seen=seen)

    def draft(self, items: Sequence[Item], ctx: "Context") -> Drafts:
        """The task of each item, generated again from its seed and index."""
        fingerprint = self.fingerprint(ctx)
        source = self._source(items[0].params["seed"], self.count * _DRAWS)
        drafts = []
        for item in items:
            entry = source[item.params["index"]]
            drafts.append(Draft(item, identified(self._task(entry, item.params), fingerprint)))
        return Drafts(drafts=drafts)

    def _source(self, seed: int, size: int) -> Any:
        """The data set as reasoning-gym builds it; UserError for an unknown name or configuration."""
        import reasoning_gym
        from reasoning_gym.factory import DATASETS

        if self.dataset not in DATASETS:
            usable = sorted(set(DATASETS) - set(REFUSED))
            raise UserError(f"Unknown reasoning-gym data set '{self.dataset}'.", f"Known: {', '.join(usable)}.")
        try:
            return reasoning_gym.create_dataset(self.dataset, seed=seed, size=size, **self.config)
        except (TypeError, ValueError, AssertionError) as error:
            options = sorted(set(DATASETS[self.dataset][1].__dataclass_fields__) - {"seed", "size"})
            raise UserError(
                f"config of reasoning-gym data set '{self.dataset}' does not fit: {error}",
                f"Known options: {', '.join(options)}.",
            ) from error

    def _task(self, entry: dict[str, Any], params: dict[str, Any]) -> Task:
        """The task of one entry, without an id."""
        spec = {
            "dataset": self.dataset,
            "config": self.config,
            "seed": params["seed"],
            "index": params["index"],
            # Some entries hold NumPy scalars, dates and keys that are no text.
            "entry": json.loads(json.dumps(entry, default=_plain)),
        }
        answer, lines = str(entry["answer"]), len(str(entry["answer"]).splitlines())
        instruction = self.instruction if lines < 2 else _TAGGED
        question = prompt("question", question=entry["question"].strip(), instruction=instruction)
        return Task(
            id="",
            kind=self.task_kind,
            name=f"{self.dataset}/{params['index']}",
            prompt=(Message(role="user", content=question),),
            verifier=VerifierSpec(use="reasoning_gym", spec_json=canonical_json(spec)),
            gold=answer if lines < 2 else f"<answer>\n{answer}\n</answer>",
            provenance=Provenance(
                dataset=f"reasoning-gym/{self.dataset}",
                record=str(params["index"]),
                reader="reasoning_gym",
                licence="Apache-2.0",
            ),
        )


def _plain(value: Any) -> Any:
    """JSON data for what `json` does not know: the plain value of a NumPy scalar, else its text."""
    return value.item() if hasattr(value, "item") else str(value)
