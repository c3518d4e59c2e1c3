"""Parts of a verifier that is made of other verifiers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from schemas.errors import MissingExtra, RecordError, UserError
from schemas.ids import canonical_json, content_id
from schemas.task import Task, VerifierSpec
from schemas.trajectory import Base
from schemas.vocabulary import Kind, Trust
from tasks.verify.base import Verifier
from tasks.verify.ranges import Weight

if TYPE_CHECKING:
    from tasks.context import Context

_WHOLES = ("composite", "hierarchical")
_TRUST = (Trust.OUTSIDE, Trust.INSIDE, Trust.MODEL)


class Part(Base, frozen=True):
    """One verifier: its id, its own specification and options, its weight; a gate must pass or nothing counts."""

    use: str
    spec: dict[str, Any] = {}
    options: dict[str, Any] = {}
    weight: Weight = 1.0
    gate: bool = False


def fingerprint_of(whole: Verifier, ctx: "Context") -> str:
    """The fingerprint of a verifier made of parts: its own, with the recipe's teacher, whom a part may ask."""
    teacher = ctx.recipe.teacher
    asked = ctx.build(Kind.TEACHER, teacher).identity() if teacher is not None else None
    return content_id("operator", whole.identity(), asked, ctx.recipe.seed)


def least(one: Trust, other: Trust) -> Trust:
    """The lesser of two: a model's opinion, then what a candidate's process could write, then a comparison outside."""
    return max(one, other, key=_TRUST.index)


def part_of(part: Part, ctx: "Context") -> Verifier:
    """The verifier of a part; RecordError for what is no verifier, has no such options, or is made of parts itself."""
    try:
        built = ctx.build(Kind.VERIFIER, {**part.options, "use": part.use})
    except MissingExtra:
        raise
    except UserError as error:
        raise RecordError("bad_spec", f"the part '{part.use}': {error}") from error
    if not isinstance(built, Verifier) or part.use in _WHOLES:
        raise RecordError("bad_spec", f"'{part.use}' cannot be a part")
    return built


def task_of(task: Task, part: Part) -> Task:
    """The task as a part sees it: the same question with the part's own specification."""
    return Task(
        id=f"{task.id}/{part.use}",
        kind=task.kind,
        prompt=task.prompt,
        verifier=VerifierSpec(use=part.use, spec_json=canonical_json(part.spec)),
        gold=task.gold,
        environment_json=task.environment_json,
    )


def forget(parts: Iterable[Part], task: Task, completion: str, ctx: "Context") -> None:
    """Makes sure that no later judgement of a part is taken from what is remembered."""
    for part in parts:
        try:
            part_of(part, ctx).forget(task_of(task, part), completion, ctx)
        except RecordError:
            # A part whose specification cannot be used was never judged.
            continue
