"""Two texts side by side where they differ: what they share is shortened, and both lines keep step."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from gristmill.views.output import cut
from tasks.curate.explore import common_lead

# Words of a shared stretch that stay on each side of a difference, and signs shown of one side of a difference.
_BESIDE, _PIECE = 4, 60
_SPACED = re.compile(r"\s*(?:\w+|[^\w\s])")


def side_by_side(one: str, other: str, width: int, rows: int = 2) -> list[tuple[str, str]]:
    """At most `rows` pairs of lines of at most `width` signs, whose columns stand for the same place in both texts.

    A text that ends with … goes on beyond what is given.
    """
    pieces = list(_pieces(one, other))
    first, second = ("".join(piece[side] for piece in pieces).removeprefix(" ") for side in (0, 1))
    lines = [
        (first[start : start + width].rstrip(), second[start : start + width].rstrip())
        for start in range(0, len(first), width)
    ]
    return lines[:rows]


def _pieces(one: str, other: str) -> Iterator[tuple[str, str]]:
    """The texts cut into stretches that are the same and stretches that differ, both sides equally long."""
    left, right = (_SPACED.findall(" ".join(text.removesuffix("…").split())) for text in (one, other))
    open_end = one.endswith("…") or other.endswith("…")
    changes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    for number, (kind, a, b, c, d) in enumerate(changes):
        last = number == len(changes) - 1
        if kind == "equal":
            shared = "".join(left[a:b]) if len(changes) == 1 else _shared(left[a:b], opens=number == 0, closes=last)
            yield shared, shared
        elif last and open_end and number > 1:
            # Nobody knows whether they differ here: one text was cut a little later than the other.
            yield " …", " …"
        else:
            mine, others = _changed("".join(left[a:b]), "".join(right[c:d]))
            longest = max(len(mine), len(others))
            yield mine.ljust(longest), others.ljust(longest)


def _shared(words: list[str], *, opens: bool, closes: bool) -> str:
    """A shared stretch: the words beside the differences, and a mark for those between them."""
    before, after = (0 if opens else _BESIDE), (0 if closes else _BESIDE)
    if len(words) <= before + after + 1:
        return "".join(words)
    return f"{''.join(words[:before])} …{''.join(words[len(words) - after :])}"


def _changed(one: str, other: str) -> tuple[str, str]:
    """Both sides of a difference; of long words without a space, such as codes, from a little before it on."""
    lead = common_lead(one, other) - _PIECE // 3
    if lead > 0:
        one, other = f" …{one[lead:]}", f" …{other[lead:]}"
    return cut(one, _PIECE), cut(other, _PIECE)
