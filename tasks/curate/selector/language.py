"""Keeps trajectories whose words are in the languages asked for."""

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from schemas.errors import MissingExtra
from schemas.rows import Verdict
from schemas.trajectory import Trajectory, text_of
from schemas.vocabulary import Source
from tasks.curate.base import Choice, Selector
from tasks.curate.view import own_steps, prompt_text
from tasks.operator import Item

if TYPE_CHECKING:
    from tasks.context import Context


class Language(Selector, frozen=True, kw_only=True):
    """Keeps trajectories whose words are in the languages asked for.

    The reason is `language`; the evidence the language found and how many words it was found in.

    Looked at are the words of users and of the agent, fenced code left out; calls are no language. Detected with
    py3langid. A text of fewer than `min_words` words says too little and stays, reason `short`.

    keep: ISO 639-1 codes of the languages that stay.
    """

    keep: tuple[str, ...] = ("en",)
    min_words: int = 8

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """By the most likely language."""
        said = [text_of(step.content) for step in own_steps(trajectory) if step.source is Source.AGENT]
        text = "\n".join(part for one in (prompt_text(trajectory), *said) for part in one.split("```")[::2])
        words = len(text.split())
        # Scripts without spaces have few "words" however long they are.
        if words < self.min_words and len(text) < 4 * self.min_words:
            return Choice(True, "short", evidence={"words": words})
        found = _classify()(text)[0]
        evidence = {"language": found, "words": words}
        return Choice(found in self.keep, "ok" if found in self.keep else "language", evidence=evidence)


@functools.cache
def _classify() -> Callable[[str], tuple[str, float]]:
    try:
        py3langid = importlib.import_module("py3langid")
    except ImportError as error:
        raise MissingExtra("py3langid", "curate") from error
    return cast(Callable[[str], tuple[str, float]], py3langid.classify)
