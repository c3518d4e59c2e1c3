"""Operators that ask a teacher one question per item: who is asked, and what becomes of calls that failed.

Every call goes through the one model client. A call that the budget or the breaker held back leaves its item
pending; one that failed makes it a dead letter that the next run tries again; both are accounted for.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from schemas.errors import UserError
from schemas.ids import seed_for
from schemas.rows import DeadLetter, Request
from schemas.vocabulary import Kind, Stage
from tasks.operator import Item, Pending, dead

if TYPE_CHECKING:
    from tasks.client.request import ModelReply, ModelRequest
    from tasks.client.teacher import Teacher
    from tasks.context import Context


class Asked(NamedTuple):
    """The replies with their items, in order, and the account of those that got none."""

    replies: list[tuple[Item, "ModelReply"]]
    dead: list[DeadLetter]
    pending: list[Pending]
    accounts: list[Request]


def teacher_of(entry: dict[str, Any] | None, ctx: "Context", who: str) -> "Teacher":
    """The teacher that the operator `who` names, or else the recipe's; a UserError where there is neither."""
    chosen = entry or ctx.recipe.teacher
    if chosen is None:
        raise UserError(
            f"'{who}' has no teacher.",
            "It takes its own option `teacher`, or else the recipe's.",
            'Add a table [teacher] with, for example, use = "local" to the recipe.',
        )
    return cast("Teacher", ctx.build(Kind.TEACHER, chosen))


def questions(
    items: Sequence[Item], texts: Sequence[str], max_tokens: int, who: str, ctx: "Context"
) -> "list[ModelRequest]":
    """One question per item, in one message, at temperature 0; `who` asks, and its name is part of the seed."""
    from tasks.client.request import ModelRequest

    return [
        ModelRequest(
            messages=({"role": "user", "content": text},),
            item_id=item.id,
            max_tokens=max_tokens,
            temperature=0.0,
            seed=seed_for(ctx.recipe.seed, who, item.id),
        )
        for item, text in zip(items, texts, strict=True)
    ]


def ask(
    teacher: "Teacher", items: Sequence[Item], requests: Sequence["ModelRequest"], stage: Stage, ctx: "Context"
) -> Asked:
    """Asks all requests at once, one per item, and sorts out what came back."""
    from tasks.client.request import CallFailure

    asked = Asked([], [], [], [])
    for item, reply in zip(items, ctx.client.complete_all(teacher, requests), strict=True):
        if not isinstance(reply, CallFailure):
            asked.accounts.append(reply.account(item.id))
            asked.replies.append((item, reply))
            continue
        if reply.attempts:
            asked.accounts.append(reply.account())
        if reply.pending:
            asked.pending.append(Pending(item_id=item.id, reason=reply.cause.value))
        else:
            first, told = reply.first_cause.value, reply.describe()
            asked.dead.append(dead(item, stage, first, told, source=reply.endpoint, retry=True))
    return asked
