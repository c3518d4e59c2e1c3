"""The reward function of RL training: this product's own verifiers, fed from the shard's columns alone.

A verdict without a reward (an infrastructure error) is no reward of 0: the trainer leaves that sample out.
"""

from collections.abc import Callable, Sequence
from typing import Any

from schemas.rows import Verdict
from schemas.task import Message, Task, VerifierSpec
from schemas.vocabulary import Kind
from tasks.context import Context

Reward = Callable[..., list[float | None]]


def verified_reward(ctx: Context, seen: list[Verdict]) -> Reward:
    """A TRL reward function that scores completions with the row's verifier; every verdict is appended to `seen`."""

    def verified(
        prompts: Sequence[Sequence[dict[str, Any]]], completions: Sequence[Any], **columns: Sequence[Any]
    ) -> list[float | None]:
        rewards: list[float | None] = []
        for index, completion in enumerate(completions):
            row = {name: values[index] for name, values in columns.items() if isinstance(values, list)}
            task = task_of(prompts[index], row)
            verdict = verifier_of(ctx, task.verifier.use).score(task, text_of(completion), ctx)
            seen.append(verdict)
            rewards.append(verdict.reward)
        return rewards

    return verified


def verifier_of(ctx: Context, use: str) -> Any:
    """The verifier with the options that the recipe gives it, or its defaults."""
    entry = next((entry for entry in ctx.recipe.verify if entry.get("use") == use), {"use": use})
    return ctx.build(Kind.VERIFIER, entry)


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
