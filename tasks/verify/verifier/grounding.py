"""Checks the citations of an agent: the cited observation exists, and it supports the statement that cites it.

A citation is `[obs 2]` or, with a quotation, `[obs 2: "the words"]` (also observation, result, source); it names the
second result that the agent had seen by then. Existence is checked by code, the quotation word for word; support is a
model's opinion, one call a citation. After ReWatch-R1's observation reward. Judges every trajectory; it needs no
specification.
"""

import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from schemas.task import Task
from schemas.vocabulary import Source, VerdictKind
from tasks.verify.base import Judgement, failed, unparsable
from tasks.verify.judging.judge import YES_NO, Question, judged, mark_for, opinion, unread
from tasks.verify.judging.process import ProcessJudge, Shown, read

if TYPE_CHECKING:
    from tasks.context import Context

_CITATION = re.compile(
    r"\[(?:obs|observation|result|source)\s{0,3}#?(\d{1,4})(?:\s{0,3}:\s{0,3}[\"“](.*?)[\"”])?\]", re.I
)
# A statement ends with its sentence, unless that is only the citation itself.
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Citation(NamedTuple):
    """Where a citation stands, what it states, the observation's number from 1 on, and the words it quotes."""

    step: int
    statement: str
    number: int
    quote: str


class Grounding(ProcessJudge, frozen=True, kw_only=True):
    """The share of citations that exist and support their statements; it passes when all do.

    required: whether a trajectory without any citation fails (`no_citation`); else it is left unjudged (unparsable).
    """

    required: bool = True

    prompts: ClassVar[tuple[str, ...]] = ("grounding",)

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Citations of what is not there are wrong without asking; the others are asked about."""
        steps = read(completion)
        if steps is None:
            return unparsable("no_steps")
        found = citations(steps)
        if not found:
            return failed("no_citation") if self.required else unparsable("no_citation")
        there: list[tuple[Citation, str]] = []
        missing: list[Citation] = []
        for each in found:
            observation = _cited(each, steps)
            if observation is None:
                missing.append(each)
            else:
                there.append((each, observation))
        evidence: dict[str, Any] = {
            "citations": len(found),
            "missing": [{"step": each.step, "number": each.number, "quote": each.quote[:100]} for each in missing[:20]],
        }
        if not there:
            return failed("not_there", evidence)
        replies, accounts = self.ask(task, [self._question(*each) for each in there], ctx, YES_NO)
        opinions = [opinion(reply.text) for reply in replies]
        bad = [reply for reply, said in zip(replies, opinions, strict=True) if said.yes is None]
        if bad:
            return unread(bad, accounts, evidence)
        unsupported = [
            {"step": each.step, "number": each.number, "why": said.why}
            for (each, _), said in zip(there, opinions, strict=True)
            if not said.yes
        ]
        evidence |= {"model": replies[0].model, "unsupported": unsupported[:20]}
        if not missing and not unsupported:
            return judged(VerdictKind.PASS, 1.0, "pass", evidence, accounts)
        reward = 1.0 - (len(missing) + len(unsupported)) / len(found)
        return judged(VerdictKind.FAIL, reward, "not_there" if missing else "unsupported", evidence, accounts)

    def _question(self, citation: Citation, observation: str) -> Question:
        known = {"observation": self.cut(observation), "statement": self.cut(citation.statement)}
        return Question("grounding", {**known, "mark": mark_for(*known.values())})


def citations(steps: list[Shown]) -> list[Citation]:
    """Every citation in the agent's texts, in order, with the sentence that it stands in."""
    found = []
    for step in steps:
        if step.who != Source.AGENT.value:
            continue
        for match in _CITATION.finditer(step.text):
            found.append(Citation(step.index, _statement(step.text, match), int(match[1]), match[2] or ""))
    return found


def _statement(text: str, match: "re.Match[str]") -> str:
    ends = [0, *(gap.end() for gap in _SENTENCE.finditer(text) if gap.end() <= match.start())]
    after = _SENTENCE.search(text, match.end())
    sentence = text[ends[-1] : after.start() if after else len(text)]
    if _CITATION.sub("", sentence).strip(" .!?") == "" and len(ends) > 1:
        # "It is blue. [obs 1]": the statement is the sentence before.
        sentence = text[ends[-2] : match.end()]
    return _CITATION.sub("", sentence).strip()


def _cited(citation: Citation, steps: list[Shown]) -> str | None:
    """The observation that a citation names, None when there was none by then or its words are not in it."""
    seen = [
        call.output for step in steps if step.index < citation.step for call in step.calls if call.failed is not None
    ]
    if not 1 <= citation.number <= len(seen):
        return None
    observation = seen[citation.number - 1]
    return observation if _plain(citation.quote) in _plain(observation) else None


def _plain(text: str) -> str:
    return " ".join(text.split())
