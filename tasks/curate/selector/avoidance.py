"""Drops non-attempts and answers that cite what was never seen."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schemas.rows import Verdict
from schemas.trajectory import Trajectory, text_of
from schemas.vocabulary import Source
from tasks.curate.base import KEEP, Choice, Selector
from tasks.curate.view import answer_text, own_steps
from tasks.operator import Item

if TYPE_CHECKING:
    from tasks.context import Context

_REFUSALS = (
    r"\bI (?:cannot|can't|can not|am unable to|am not able to|won't be able to) "
    r"(?:help|assist|answer|solve|complete|do|provide|fulfil|fulfill|access|continue)\b",
    r"\bas an? (?:AI|language model|AI language model)\b",
    r"\b(?:it is|it's) (?:impossible|not possible) (?:for me )?to (?:answer|solve|determine|complete)\b",
    r"\bI (?:give up|don't know|do not know)\b",
)
_PLACEHOLDERS = (
    r"\b(?:your|the) code (?:goes )?here\b",
    r"#\s*(?:TODO|your implementation|implementation here|rest of the code)\b",
    r"\braise NotImplementedError\b",
    r"\[(?:insert|your) [^\]]{1,40}\]",
)
_URL = re.compile(r"https?://[^\s<>\"'`)\]}]+")


class Avoidance(Selector, frozen=True, kw_only=True):
    """Drops non-attempts and answers that cite what was never seen.

    Reasons: refusal, placeholder, fabricated_reference. The evidence is the text that matched.

    Only the last words of the agent are looked at. A reference is fabricated when the answer cites a URL that
    stands nowhere before in the trajectory.

    refusals, placeholders: further regular expressions. references: whether cited URLs are looked up.
    passed: whether a passing verdict excuses refusals and placeholders; an executed proof outweighs a phrase.
    """

    refusals: tuple[str, ...] = ()
    placeholders: tuple[str, ...] = ()
    references: bool = True
    passed: bool = True

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where a passing verdict excuses."""
        return self.passed

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """The first sign."""
        answer = answer_text(trajectory)
        if not any(verdict.kind.value == "pass" for verdict in verdicts):
            rules = (("refusal", (*_REFUSALS, *self.refusals)), ("placeholder", (*_PLACEHOLDERS, *self.placeholders)))
            for reason, patterns in rules:
                for pattern in patterns:
                    match = re.search(pattern, answer, re.IGNORECASE)
                    if match:
                        return Choice(False, reason, evidence={"text": match.group()[:200]})
        cited = [url.rstrip(".,;:!?") for url in _URL.findall(answer)] if self.references else []
        if cited:
            seen = _seen(trajectory)
            for url in cited:
                if url not in seen:
                    return Choice(False, "fabricated_reference", evidence={"text": url[:200]})
        return KEEP


def _seen(trajectory: Trajectory) -> str:
    """All that others said to the agent, and what its tools answered."""
    texts = []
    for step in own_steps(trajectory):
        if step.source is not Source.AGENT:
            texts.append(text_of(step.content))
        texts += [text_of(result.content) for result in step.results]
    return "\n".join(texts)
