"""Judges a rewritten statement: does it still ask the same, in other words? Pure functions, no model.

What can be checked by reading is checked strictly: every number, name, signature, expression and negation of the
original must stand in the rewrite, numbers in the same order and none added (an added one may be the answer).
That refuses some good rewrites (11 of 30 handmade ones) and lets no changed task through on those counts; that hidden
tests still fit is proven afterwards.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

# Share of common letter trigrams above which a rewrite counts as the same wording. Measured on 61 handmade rewrites
# of ten statements (tests/tasks/synthesize/rewrites.toml): trivial edits 0.54 or more, paraphrases 0.34 or less.
MAX_SIMILARITY = 0.45

# "one" is left out: it is a pronoun and an article as often as a number.
_SPELLED = ("zero", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER_WORDS = dict(zip(_SPELLED, map(str, (0, *range(2, 13))), strict=True))
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*|\b(?:" + "|".join(_NUMBER_WORDS) + r")\b", re.IGNORECASE)
_OPERAND = r"\(*\s*-?\d+(?:\.\d+)?\s*\)*"
_EXPRESSION = re.compile(rf"{_OPERAND}(?:\s*[-+*/%^]\s*{_OPERAND})+")
_SIGNATURE = re.compile(r"\bdef\s+\w+\s*\([^)]*\)(?:\s*->\s*[\w\[\], .]+)?|\b[A-Za-z_]\w*\([^()]*\)")
_QUOTED = re.compile(r"`([^`]+)`|'([^'\s][^']*)'(?!\w)|\"([^\"]+)\"")
_SYMBOL = re.compile(r"[\[\]{}<>^|&#@\\]|(?<=\s)[-+*/%](?=\s|[.,;]|$)")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|without|neither|nor|except|unless|ignor\w+|avoid\w*|cannot)\b|n't\b", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_LABEL = re.compile(
    r"^(?:(?:sure|certainly|okay|here(?:'s| is| are)|(?:the )?(?:rewritten|rephrased|reworded)|in other words"
    r"|instruction|answer)\b[^:\n]{0,80}:\s*|(?:the|this|your) (?:task|goal|aim) (?:here )?is to\s+)",
    re.IGNORECASE,
)
_META = re.compile(r"^(?:sure|certainly|here(?:'s| is)|i |i'm|as an|you (?:are|asked)|sorry)", re.IGNORECASE)
# Talk about the rewriting or the task instead of the task itself, where the original has no such word.
_TALK = re.compile(
    r"\b(?:tasks?|problems?|instructions?|statements?|questions?|original\w*|rewr\w+|rephras\w+|reword\w*|meaning"
    r"|in other words|example)\b",
    re.IGNORECASE,
)
# A sentence that opens like this states something instead of asking for it, unless it has a word that asks.
_STATES = re.compile(
    r"^(?:the|an?|this|that|these|those|it|there|all|any|one|both|each|every|some|in|as|because|since|when|if|yes|no"
    r"|[a-z]+ing|[a-z])\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\?|\b(?:you|your|must|should|shall|needs?|has to|have to|wanted|required|find|return)\b", re.IGNORECASE
)
# Words for one operation or property each: one that only the original or only the rewrite speaks of changes what is
# asked, or may.
_OPERATIONS = tuple(
    re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for words in (
        r"sums?|add(?:s|ed|ing|ition)?|total|plus",
        r"differences?|subtract\w*|minus",
        r"products?|multipl(?:y|ies|ied|ying|ication)|times",
        r"divid\w*|division|quotients?|ratio",
        r"square[ds]?|squaring|themsel\w+|itself",
        r"(?:square )?roots?|half|halve[ds]?",
        r"largest|greatest|biggest|highest|max(?:imum)?|larger|greater|bigger|higher|longest",
        r"smallest|least|lowest|min(?:imum)?|smaller|lower|less|fewest|shortest",
        r"even(?:ness|ly)?",
        r"odd(?:ness)?",
        r"first",
        r"last",
        r"ascending|increasing|smallest to largest",
        r"descending|decreasing|largest to smallest",
        r"upper|capital\w*",
        r"lower(?:-?case)?",
        r"averages?|means?|median",
        r"positive",
        r"negative",
    )
)
_CODE = re.compile(r"```|^\s*(?:def|import|from|class|return) \w+.*[:=(]", re.MULTILINE)


class Judgement(NamedTuple):
    """`reason` is empty when the rewrite stands; `lost` names what it lost or added; `similarity` is 0 to 1."""

    reason: str
    lost: tuple[str, ...] = ()
    similarity: float = 0.0

    def evidence(self) -> dict[str, Any]:
        """What shows the judgement, for the ledger."""
        return {"lost": list(self.lost), "similarity": round(self.similarity, 4)}


def split_prompt(text: str) -> tuple[str, str]:
    """The statement (first paragraph) of a prompt and the rest, which says what form the answer takes."""
    statement, gap, rest = text.strip().partition("\n\n")
    return statement, gap + rest


def extract(reply: str) -> str:
    """The statement in a model's reply: its first paragraph without a leading label and without quotes around it."""
    paragraphs = [part.strip() for part in reply.strip().split("\n\n") if part.strip()]
    if len(paragraphs) > 1 and paragraphs[0].endswith(":"):
        paragraphs = paragraphs[1:]
    text = _LABEL.sub("", paragraphs[0]).strip() if paragraphs else ""
    for mark in ('"', "**", "`"):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark) and text.count(mark) == 2:
            text = text[len(mark) : -len(mark)].strip()
    return text


def judge(original: str, rewrite: str, names: Sequence[str] = (), max_similarity: float = MAX_SIMILARITY) -> Judgement:
    """Whether `rewrite` may stand for `original`; `names` are the task's own (function and parameter names).

    Reasons, in the order checked: not_a_statement, lost_number, added_number, moved_number, lost_name,
    lost_signature, lost_expression, lost_negation, changed_operation, too_similar.
    """
    if not _is_statement(original, rewrite):
        return Judgement("not_a_statement")
    wanted, found = numbers(original), numbers(rewrite)
    if missing := Counter(wanted) - Counter(found):
        return Judgement("lost_number", tuple(sorted(missing)))
    if extra := Counter(found) - Counter(wanted):
        return Judgement("added_number", tuple(sorted(extra)))
    if wanted != found:
        return Judgement("moved_number", tuple(found))
    if lost := [name for name in names_in(original, names) if not _stands(name, rewrite)]:
        return Judgement("lost_name", tuple(lost))
    squeezed = _squeeze(rewrite)
    if lost := [span for span in map(_squeeze, _SIGNATURE.findall(original)) if span not in squeezed]:
        return Judgement("lost_signature", tuple(lost))
    if lost := [span for span in map(_squeeze, _EXPRESSION.findall(original)) if span not in squeezed]:
        return Judgement("lost_expression", tuple(lost))
    if symbols := _symbols(original) - _symbols(rewrite):
        return Judgement("lost_expression", tuple(sorted(symbols)))
    if bool(_NEGATION.search(original)) != bool(_NEGATION.search(rewrite)):
        return Judgement("lost_negation")
    spoken = [(op.search(original), op.search(rewrite)) for op in _OPERATIONS]
    if changed := [had or has for had, has in spoken if bool(had) != bool(has)]:
        return Judgement("changed_operation", tuple(found.group(0).lower() for found in changed if found))
    alike = similarity(original, rewrite, names)
    if alike > max_similarity or _squeeze(original).rstrip(".") in squeezed:
        return Judgement("too_similar", (), alike)
    return Judgement("", (), alike)


def numbers(text: str) -> list[str]:
    """The numbers in the text in order, words from zero to twelve (but not one) as digits."""
    found = [match.group(0).lower().rstrip(".,") for match in _NUMBER.finditer(text)]
    return [_NUMBER_WORDS.get(number, number) for number in found]


def names_in(text: str, names: Sequence[str] = ()) -> list[str]:
    """The names that the text uses: the given ones, quoted ones, identifiers, capitalised words within a sentence."""
    found = [name for name in names if _stands(name, text)]
    found += [next(filter(None, groups)) for groups in _QUOTED.findall(text)]
    for match in _WORD.finditer(text):
        word, before = match.group(0), text[: match.start()].rstrip()
        proper = bool(before) and before[-1] not in ".!?:" and word[0].isupper() and word != "I"
        if proper or "_" in word or any(c.isdigit() or c.isupper() for c in word[1:]):
            found.append(word)
    return list(dict.fromkeys(found))


def similarity(original: str, rewrite: str, names: Sequence[str] = ()) -> float:
    """The share (Jaccard) of letter trigrams that both texts have, names and numbers left out: 0 to 1."""
    protected = {name.lower() for name in names_in(original, names)}
    one, other = (_trigrams(text, protected) for text in (original, rewrite))
    return len(one & other) / len(one | other) if one | other else 1.0


def _trigrams(text: str, protected: set[str]) -> set[str]:
    left_out = protected | _NUMBER_WORDS.keys()
    words = [word for word in re.findall(r"[a-z]+", text.lower()) if word not in left_out]
    line = f" {' '.join(words)} " if words else ""
    return {line[k : k + 3] for k in range(len(line) - 2)}


def _is_statement(original: str, rewrite: str) -> bool:
    """Whether the text can be a task: prose of a like length that asks, no code, no talk about the rewriting."""
    length, wanted = len(rewrite.split()), len(original.split())
    if length < 2 or length > 3 * wanted + 10 or 3 * length < wanted:
        return False
    sentences = [sentence.strip() for sentence in re.split(r"(?<=[.?!;])\s+", rewrite) if sentence.strip()]
    if not any(_ASKS.search(sentence) or not _STATES.match(sentence) for sentence in sentences):
        return False
    talk = {word.lower() for word in _TALK.findall(rewrite)} - {word.lower() for word in _TALK.findall(original)}
    return not (talk or _CODE.search(rewrite) or _META.match(rewrite) or rewrite.rstrip().endswith(":"))


def _stands(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _symbols(text: str) -> Counter[str]:
    """Operators and brackets outside of arithmetic expressions, which are compared as a whole."""
    return Counter(_SYMBOL.findall(_EXPRESSION.sub(" ", text)))


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)
