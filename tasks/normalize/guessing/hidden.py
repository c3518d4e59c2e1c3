"""What a chat hides in its text: how calls are written there, and how the user's turns bring their results.

An encoding counts where its decoder really finds calls. What the user's turns after a call begin with in common (a
lead: "OBSERVATION:", "<returncode>") becomes an observation pattern. Without one, every turn after a call is taken
for a result only where agents act in nearly every turn; anything less is left as it is, and said.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tasks.normalize.decoder import hermes
from tasks.normalize.decoder.found import Decoded
from tasks.normalize.dialect import decoder_of

# What an encoding's text cannot do without, in the order in which decoders are tried.
_MARKS = {
    "function_xml": "<function=",
    "hermes": "<tool_call>",
    "execute": "<execute>",
    "react:ACTION": "ACTION:",
    "react:Act": "Act:",
    "react": "Action:",
}
_USUAL = 0.2
_FENCE = re.compile(r"^[ \t]*```([\w+-]*)[ \t]*\r?\n", re.MULTILINE)
_LEAD = re.compile(r"[A-Za-z][\w '()./-]{0,60}(?:\[[^\]\n]{0,80}\])?[\w '()./-]{0,20}:(?=[ \r\n])|<[A-Za-z_][\w-]*>")
_BRACKET = re.compile(r"\[([^\]\n]*)\]")
# Words that say that a machine speaks.
_MACHINE = re.compile(
    r"observ|output|result|return|stdout|stderr|exit|respon|execut|terminal|console|environment|tool", re.I
)
# The share of the turns after a call that must begin with a lead: of one that names a machine, of any other.
_NAMED, _UNNAMED = 0.2, 0.6
# Every turn is the environment's: at least so many calls, so many a chat, and in so large a share of the turns.
_LEAST, _A_CHAT, _NEARLY = 4, 2, 0.9


class Turn(NamedTuple):
    """Who speaks (`agent`, `user` or another source) and the text."""

    source: str
    text: str


class Hidden(NamedTuple):
    """Options that read what was found, and what was not settled or how sure it is, in words."""

    options: dict[str, Any]
    notes: tuple[str, ...] = ()


class _Act(NamedTuple):
    """A turn of an agent with calls in its text, and the turn after it."""

    decoded: Decoded
    text: str
    following: Turn | None


def hidden(chats: Sequence[Sequence[Turn]]) -> Hidden:
    """The encodings of calls and the observation patterns of chats that have no calls of their own."""
    calls, settled = _written(chats)
    fences = _labels(chats)
    if fences and not settled:
        # Markup of calls in one turn of many may be what the talk is about.
        found = _fenced(chats, fences)
        if found.options or not calls:
            return found
    if not calls:
        return Hidden({})
    acts = _acts(chats, calls)
    if calls[0].startswith("react") and fences:
        # "Act: bash", then a block: the block is the call, the line only names it.
        bodies = sum(bool(_FENCE.search(call.arguments)) for act in acts for call in act.decoded.calls)
        if bodies * 5 >= len(acts):
            calls = [f"fenced:{_language(fences)}", *calls]
            acts = _acts(chats, calls)
    answers = _answers(acts)
    options: dict[str, Any] = {"calls": calls}
    if not answers:
        return Hidden(options)
    patterns, note = _leads(answers, chats)
    if patterns:
        return Hidden({**options, "observation": patterns}, (note,))
    acting, spoken = _share(chats, acts)
    if acting >= max(_LEAST, _A_CHAT * len(chats)) and acting >= _NEARLY * spoken:
        note = (
            f"agents act in {acting} of {spoken} turns, so every user turn right after a call is taken for its result"
        )
        return Hidden({**options, "observation": [""]}, (note,))
    return Hidden(options, (_open(len(answers)),))


def _open(count: int) -> str:
    return (
        f"{count} user turns follow a call and begin with nothing in common: they stay the user's; "
        '--option \'observation=["PATTERN"]\' names those that are results ("": all of them)'
    )


def _fenced(chats: Sequence[Sequence[Turn]], fences: Counter[str]) -> Hidden:
    """Fenced blocks alone: chats are full of code that nobody ran, so only what is observed is a call."""
    name = f"fenced:{_language(fences)}"
    acts = _acts(chats, [name])
    options = {"calls": [name], "only_observed": True}
    if any(act.following is not None and act.following.source == "environment" for act in acts):
        return Hidden(options)
    answers = _answers(acts)
    patterns, note = _leads(answers, chats) if answers else ([], "")
    if patterns:
        return Hidden({**options, "observation": patterns}, (note,))
    acting, spoken = _share(chats, acts)
    last = sum(not act.decoded.after.strip() for act in acts)
    if acting >= max(_LEAST, _A_CHAT * len(chats)) and min(acting / spoken, last / len(acts)) >= _NEARLY:
        note = f"{acting} of {spoken} agent turns end in a block, so every user turn right after one is its result"
        return Hidden({"calls": [name], "observation": [""]}, (note,))
    wanted = f"--option 'calls=[\"{name}\"]' reads each turn's last one as a call"
    return Hidden({}, (f"its fenced blocks stay text, for nothing shows that they were run; {wanted}",) if acts else ())


def _written(chats: Sequence[Sequence[Turn]]) -> tuple[list[str], bool]:
    """The encoding of which decoders find most calls, if any, and whether so many turns hold one that it is settled."""
    texts = [turn.text for chat in chats for turn in chat if turn.source == "agent"]
    best, most = "", 0
    for name, mark in _MARKS.items():
        decode = decoder_of(name)
        found = sum(mark in text and decode(text) is not None for text in texts)
        # Prose holds "Action:" too.
        if found > most and not (name.startswith("react") and found < _USUAL * len(texts)):
            best, most = name, found
    return [best] if best else [], most >= _USUAL * len(texts)


def _labels(chats: Sequence[Sequence[Turn]]) -> Counter[str]:
    """The languages of opening fences; an unlabelled one (a closing one too) counts as ''."""
    return Counter(
        label.lower()
        for chat in chats
        for turn in chat
        if turn.source == "agent"
        for label in _FENCE.findall(turn.text)
    )


def _language(fences: Counter[str]) -> str:
    named = [label for label, _ in fences.most_common() if label]
    return named[0] if named else "bash"


def _acts(chats: Sequence[Sequence[Turn]], calls: Sequence[str]) -> list[_Act]:
    decoders = [decoder_of(name) for name in calls]
    acts: list[_Act] = []
    for chat in chats:
        for index, turn in enumerate(chat):
            if turn.source != "agent":
                continue
            decoded = next((d for decode in decoders if (d := decode(turn.text)) is not None), None)
            if decoded is not None:
                acts.append(_Act(decoded, turn.text, chat[index + 1] if index + 1 < len(chat) else None))
    return acts


def _answers(acts: Sequence[_Act]) -> list[tuple[str, set[str]]]:
    """The user's turns after calls, with the names of the calls; Hermes' own marks of results need no pattern."""
    return [
        (act.following.text, {call.name for call in act.decoded.calls})
        for act in acts
        if act.following is not None and act.following.source == "user" and not hermes.responses(act.following.text)
    ]


def _share(chats: Sequence[Sequence[Turn]], acts: Sequence[_Act]) -> tuple[int, int]:
    """How many agent turns with a user turn after them act, and how many there are from each chat's first act on."""
    texts = {act.text for act in acts}
    spoken = acting = 0
    for chat in chats:
        begun = False
        for turn, following in pairwise(chat):
            if turn.source != "agent" or following.source != "user":
                continue
            acts_here = turn.text in texts
            begun = begun or acts_here
            spoken += begun
            acting += acts_here
    return acting, spoken


def _leads(answers: Sequence[tuple[str, set[str]]], chats: Sequence[Sequence[Turn]]) -> tuple[list[str], str]:
    """Patterns of the leads that answers share, and how many have one; none where no lead is common enough."""
    found: dict[str, list[tuple[re.Match[str], set[str]]]] = {}
    for text, names in answers:
        match = _LEAD.match(text)
        if match:
            found.setdefault(_BRACKET.sub("[]", match[0]), []).append((match, names))
    ordered = sorted(found.items(), key=lambda pair: -len(pair[1]))
    opening = {turn.text[:100] for chat in chats for turn in _first(chat)}
    kept: list[tuple[str, list[tuple[re.Match[str], set[str]]]]] = []
    for lead, having in ordered:
        machine = _MACHINE.search(lead) is not None
        share = len(having) / len(answers)
        # What opens whole chats too is how this user speaks.
        usual = not machine and any(text.startswith(lead) for text in opening)
        same = any(lead.casefold() == earlier.casefold() for earlier, _ in kept)
        if same or (len(having) > 1 and not usual and share >= (_NAMED if machine else _UNNAMED)):
            kept.append((lead, having))
    told = ", ".join(repr(lead) for lead, _ in kept)
    count = sum(len(having) for _, having in kept)
    note = f"{count} of {len(answers)} turns after a call begin with {told} and are read as its results"
    rest = len(answers) - count
    return [_pattern(having) for _, having in kept], note + (f"; the other {rest} stay the user's" if rest else "")


def _first(chat: Sequence[Turn]) -> Iterator[Turn]:
    """The user's turns before the agent speaks."""
    for turn in chat:
        if turn.source == "agent":
            return
        if turn.source == "user":
            yield turn


def _pattern(having: Sequence[tuple[re.Match[str], set[str]]]) -> str:
    """A lead as an observation pattern: a tag stays with the text, a bracket that holds the tool's name names it."""
    lead = having[0][0][0]
    if lead.startswith("<"):
        return f"(?={re.escape(lead)})"
    before, bracket, after = _parts(lead)
    pattern = re.escape(before).replace("\\ ", " ")
    if bracket is not None:
        named = sum(_parts(match[0])[1] in names for match, names in having) * 2 > len(having)
        inner = r"(?P<name>[^\]]*)" if named else r"[^\]]*"
        pattern += rf"\[{inner}\]" + re.escape(after).replace("\\ ", " ")
    rests = [match.string[match.end() : match.end() + 3] for match, _ in having]
    spaced = " ?" if any(rest.startswith(" ") for rest in rests) else ""
    breaks = "\n?" if any("\n" in rest for rest in rests) else ""
    return pattern + spaced + ("\r?" if any("\r\n" in rest for rest in rests) else "") + breaks


def _parts(lead: str) -> tuple[str, str | None, str]:
    match = _BRACKET.search(lead)
    return (lead, None, "") if match is None else (lead[: match.start()], match[1], lead[match.end() :])
