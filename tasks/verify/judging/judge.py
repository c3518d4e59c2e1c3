"""The base of verifiers that ask a model: who is asked, how its answer is read, and how little its opinion is trusted.

Every call goes through the recorded model client, so that an answer is paid once. A call that the budget or the
breaker held back leaves the trajectory for the next run; one that failed makes it a dead letter that the next run tries
again. A model's answer that cannot be read is `unparsable` without a reward: it says nothing about what was judged.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from schemas.errors import Unavailable
from schemas.ids import content_id, digest, seed_for
from schemas.rows import Request
from schemas.task import Task
from schemas.vocabulary import Trust, VerdictKind
from tasks.asking import teacher_of
from tasks.prompts import messages, template_hash
from tasks.verify.base import AskFailed, Judgement, Verifier

if TYPE_CHECKING:
    from tasks.client.request import ModelReply
    from tasks.client.teacher import Teacher
    from tasks.context import Context

_TEMPLATES = Path(__file__).parent / "templates"
_FENCED = re.compile(r"\s*+```(?:json)?[ \t]*+\n((?:(?!```).)*+)```\s*+", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"\W*(yes|no)\W*", re.IGNORECASE)
_YES_NO = {"yes": True, "true": True, "no": False, "false": False}


class Opinion(NamedTuple):
    """What a model said: yes, no, or None where that cannot be read; and its reason."""

    yes: bool | None
    why: str


class Question(NamedTuple):
    """One call: the template, its values, and which of several answers to the same question this is."""

    template: str
    values: Mapping[str, Any]
    sample: int = 0


class ModelJudge(Verifier, frozen=True, kw_only=True):
    """A verifier whose verdicts are a model's opinion (`trust = model`).

    teacher: who is asked; empty: the recipe's teacher. max_tokens, temperature: of its answers.
    """

    teacher: dict[str, Any] | None = None
    max_tokens: int = 256
    temperature: float = 0.0

    version: ClassVar[int] = 2
    inert: ClassVar[frozenset[str]] = frozenset({"teacher"})
    seeded: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ()

    def identity(self) -> dict[str, Any]:
        """The plug-in's identity with the hashes of its templates."""
        return {**Verifier.identity(self), "prompts": {name: template_hash(_path(name)) for name in self.prompts}}

    def fingerprint(self, ctx: "Context") -> str:
        """The operator's fingerprint with that of whoever answers."""
        return content_id("operator", self.identity(), self.asked(ctx).identity(), ctx.recipe.seed)

    def asked(self, ctx: "Context") -> "Teacher":
        """Who is asked: the option's teacher, or else the recipe's."""
        return teacher_of(self.teacher, ctx, self.plugin_id())

    def workers(self) -> int:
        """Many: they wait for a model most of the time, and the client bounds what is sent at once."""
        return 32

    def ask(
        self, task: Task, questions: Sequence[Question], ctx: "Context", form: Mapping[str, Any] | None = None
    ) -> "tuple[list[ModelReply], tuple[Request, ...]]":
        """The replies in order, and their accounts. form: a JSON schema that answers must have.

        Unavailable where budget or breaker held a call back; AskFailed where one failed.
        """
        from tasks.client.request import CallFailure, ModelRequest

        teacher = self.asked(ctx)
        shape = None
        if form is not None and teacher.constrains:
            shape = {"type": "json_schema", "json_schema": {"name": "judgement", "strict": True, "schema": dict(form)}}
        requests = [
            ModelRequest(
                messages=messages(_path(question.template), **question.values),
                item_id=task.id,
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                seed=seed_for(ctx.recipe.seed, self.plugin_id(), task.id, question.sample),
                sample_index=question.sample,
                response_format=shape,
            )
            for question in questions
        ]
        replies = ctx.client.complete_all(teacher, requests)
        failures = [each for each in replies if isinstance(each, CallFailure)]
        good = [each for each in replies if not isinstance(each, CallFailure)]
        held = next((each for each in failures if each.pending), None)
        if held is not None:
            raise Unavailable(held.cause.value, held.describe())
        accounts = (*(e.account(task.id) for e in good), *(e.account() for e in failures if e.attempts))
        if failures:
            raise AskFailed(failures[0].first_cause.value, failures[0].describe(), accounts)
        return good, accounts


YES_NO: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["reason", "verdict"],
    "additionalProperties": False,
}


def fields(text: str) -> dict[str, Any] | None:
    """The JSON object that a reply is: the whole of it, bare or in one fence; else None.

    A judge may quote what it judges, so an object with anything around it, several of them, or one that names a key
    twice could be the candidate's words and is not read.
    """
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def opinion(text: str) -> Opinion:
    """A yes or no with its reason, as JSON or as the bare word."""
    word = _WORD.fullmatch(text)
    if word:
        return Opinion(_YES_NO[word[1].lower()], "")
    found = fields(text) or {}
    said = found.get("verdict")
    yes = said if isinstance(said, bool) else _YES_NO.get(said.strip().lower()) if isinstance(said, str) else None
    why = found.get("reason")
    return Opinion(yes, why[:300] if isinstance(why, str) else "")


def unread(replies: "Sequence[ModelReply]", accounts: tuple[Request, ...], evidence: Mapping[str, Any]) -> Judgement:
    """The model's answer cannot be read: nothing is known about what was judged."""
    said = {"reply": replies[0].text[:300]} if replies else {}
    found = Judgement(VerdictKind.UNPARSABLE, None, "judge_unparsable", {**evidence, **said}, Trust.MODEL)
    return found._replace(accounts=accounts)


def judged(
    kind: VerdictKind, reward: float | None, reason: str, evidence: Mapping[str, Any], accounts: tuple[Request, ...]
) -> Judgement:
    """A model's opinion as a judgement."""
    return Judgement(kind, reward, reason, evidence, Trust.MODEL, accounts=accounts)


def shown(task: Task) -> str:
    """The task as a judge reads it: its messages, without the verifier's specification."""
    return "\n\n".join(message.content for message in task.prompt)


def mark_for(*texts: str) -> str:
    """A word that none of the texts holds, so that none of them can end its own quotation."""
    number = 0
    while True:
        mark = f"=={digest(chr(0).join([*texts, str(number)]))[:12]}=="
        if not any(mark in text for text in texts):
            return mark
        number += 1


def _path(name: str) -> Path:
    return _TEMPLATES / f"{name}.j2"
