"""The reward function of RL training: this product's own verifiers, fed from the shard's columns alone.

A verdict without a reward (an infrastructure error), or a task that its verifier cannot use, is no reward of 0:
the trainer leaves that sample out.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from schemas.errors import RecordError
from schemas.task import Message, Task, VerifierSpec
from schemas.vocabulary import Kind
from tasks.context import Context
from tasks.verify.base import Verifier

Reward = Callable[..., list[float | None]]


def verified_reward(ctx: Context, seen: Counter[str]) -> Reward:
    """A TRL reward function that scores completions with the row's verifier; verdict kinds are counted in `seen`."""

    def verified(
        prompts: Sequence[Sequence[dict[str, Any]]], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        pairs = []
        for index, completion in enumerate(completions):
            row = {name: values[index] for name, values in columns.items() if isinstance(values, list)}
            pairs.append((task_of(prompts[index], row), text_of(completion)))
        rewards: list[float | None] = [None] * len(pairs)
        for use in dict.fromkeys(task.verifier.use for task, _ in pairs):
            places = [index for index, (task, _) in enumerate(pairs) if task.verifier.use == use]
            for index, (kind, reward) in zip(places, _score(ctx, use, [pairs[i] for i in places]), strict=True):
                seen[kind] += 1
                rewards[index] = reward
        return rewards

    return verified


def _score(ctx: Context, use: str, pairs: Sequence[tuple[Task, str]]) -> list[tuple[str, float | None]]:
    """(verdict kind, reward) of each pair; a task that cannot be judged has no reward and its reason as kind."""
    verifier = verifier_of(ctx, use)
    try:
        return [(verdict.kind.value, verdict.reward) for verdict in verifier.score_all(pairs, ctx)]
    except RecordError as error:
        if len(pairs) == 1:
            return [(error.reason, None)]
        return [found for pair in pairs for found in _score(ctx, use, [pair])]


def verifier_of(ctx: Context, use: str) -> Verifier:
    """The verifier with the options that the recipe gives it, or its defaults."""
    entry = next((entry for entry in ctx.recipe.verify if entry.get("use") == use), {"use": use})
    built = ctx.build(Kind.VERIFIER, entry)
    if not isinstance(built, Verifier):
        raise TypeError(f"'{use}' is not a Verifier")
    return built


def task_of(prompt: Sequence[dict[str, Any]], row: dict[str, Any]) -> Task:
    """The task that a shard's row describes, as far as a verifier needs it."""
    return Task(
        id=row["task_id"],
        kind=row.get("kind") or "",
        prompt=tuple(Message(role=m["role"], content=m["content"]) for m in prompt),
        verifier=VerifierSpec(use=row["verifier"], spec_json=row.get("verifier_spec") or "{}"),
        gold=row.get("ground_truth"),
        tools_json=row.get("tools"),
        environment_json=row.get("environment_json"),
    )


def text_of(completion: Any) -> str:
    """A completion's text: TRL gives messages for conversational prompts, else the text itself."""
    if isinstance(completion, str):
        return completion
    return "".join(message.get("content") or "" for message in completion)
