"""Tags or drops trajectories whose style is known to make a model careless with what it knows."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from schemas.rows import Verdict
from schemas.trajectory import Trajectory, text_of
from schemas.vocabulary import Source
from tasks.curate.base import KEEP, Choice, Selector
from tasks.curate.view import actions_text, own_steps
from tasks.operator import Item

if TYPE_CHECKING:
    from tasks.context import Context

Style = Literal["emotional_dialogue", "debug_print"]

_FEELINGS = re.compile(
    r"\b(?:I(?:'m| am| feel| felt)(?: so| very| really| just)? "
    r"(?:sad|lonely|afraid|scared|anxious|depressed|hurt|ashamed|heartbroken|overwhelmed|hopeless|worried sick)"
    r"|I love you|I miss you|I(?:'m| am) here for you|you are not alone|my heart (?:aches|breaks|is broken)"
    r"|it's okay to (?:cry|feel)|I understand how (?:you feel|hard))\b",
    re.IGNORECASE,
)
# Code that shows a variable; a plain print may be the program's own output.
_PRINTS = re.compile(
    r"\bprint\(\s*(?:f?[\"'\\]+[^\"'\n]{0,40}(?:debug|DEBUG|=)[^\n]{0,80}|(?:vars|locals|globals|repr)\([^\n]{0,80})"
    r"|\bconsole\.(?:log|debug)\(|\blogg(?:er|ing)\.debug\(|\bpprint\(|\bvar_dump\("
)


class RiskyStyle(Selector, frozen=True, kw_only=True):
    """Tags or drops trajectories whose style is known to make a model careless with what it knows.

    Reasons: emotional_dialogue, debug_print, for a drop; `tagged` for what is kept with a finding. The evidence
    counts the places by style.

    Training on talk about feelings, and on code that prints its variables, was seen to lower a model's care for
    private context though no private fact stands in the data (privacy collapse). Judged by fixed phrases, English
    ones for feelings; so tags are for balancing and for a person's look, not proof.

    drop, tag: styles that are dropped, or only noted. least: places that a trajectory must have to count.
    """

    drop: tuple[Style, ...] = ()
    tag: tuple[Style, ...] = ("emotional_dialogue", "debug_print")
    least: Annotated[int, Meta(ge=1)] = 2

    def judge(self, trajectory: Trajectory, verdicts: Sequence[Verdict], item: Item, ctx: "Context") -> Choice:
        """The first style of `drop` that is there, then those of `tag`."""
        talk = (Source.USER, Source.AGENT)
        said = "\n".join(text_of(step.content) for step in own_steps(trajectory) if step.source in talk)
        counts: dict[Style, int] = {
            "emotional_dialogue": len(_FEELINGS.findall(said)),
            # Within JSON arguments a line's end is written out.
            "debug_print": len(_PRINTS.findall(actions_text(trajectory).replace("\\n", "\n"))),
        }
        found = {style: count for style, count in counts.items() if count >= self.least}
        for style in self.drop:
            if style in found:
                return Choice(False, style, found[style], {"found": found})
        tagged = {style: count for style, count in found.items() if style in self.tag}
        return Choice(True, "tagged", evidence={"found": tagged}) if tagged else KEEP
