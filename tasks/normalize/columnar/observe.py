"""Observation patterns over the turns of a chunk: as words where a pattern stands for a few, else by `re`."""

import re
from collections.abc import Sequence
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import numpy as np

from tasks.normalize.columnar.memory import Array
from tasks.normalize.columnar.tables import END, KIND, NAME_END, NAME_START, SEEN, SEEN_END, SEEN_START, START, USER
from tasks.normalize.dialect import Observation

_MANY = 64


def words_of_patterns(patterns: Sequence[Observation]) -> list[str] | None:
    """The words that the patterns match, in the order in which `re` would try them; None when they are no words."""
    found: list[str] = []
    for observation in patterns:
        parsed = parser.parse(observation.pattern.pattern, re.DOTALL)
        words = None if parsed.state.flags & re.IGNORECASE else _words(parsed)
        if words is None or observation.named or observation.bodied:
            return None
        found.extend(words)
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        return None
    return found


def _words(parsed: Any) -> list[str] | None:
    made = [""]
    for kind, given in parsed:
        choice = _choice(kind, given)
        if choice is None or len(made) * len(choice) > _MANY:
            return None
        made = [lead + more for lead in made for more in choice]
    return made


def _choice(kind: Any, given: Any) -> list[str] | None:
    """The words of one element, in the order of trial."""
    if kind is ops.LITERAL:
        return [chr(given)]
    if kind is ops.IN:
        return [chr(code) for _, code in given] if all(one is ops.LITERAL for one, _ in given) else None
    if kind is ops.SUBPATTERN:
        group, added, removed, inner = given
        return _words(inner) if group is None and not added and not removed else None
    if kind is ops.BRANCH:
        parts = [_words(branch) for branch in given[1]]
        return None if None in parts else [word for part in parts if part is not None for word in part]
    if kind in (ops.MAX_REPEAT, ops.MIN_REPEAT) and given[0] in (0, 1) and given[1] == 1:
        inner_words = _words(given[2])
        if inner_words is None or given[0] == 1:
            return inner_words
        return [*inner_words, ""] if kind is ops.MAX_REPEAT else ["", *inner_words]
    return None


def observe_by_pattern(turns: Array, text: Array, base: int, patterns: Sequence[Observation]) -> None:
    """Says of every turn (a row) what `dialect.observed` sees in it. text: all texts, from the address `base` on."""
    turns[:, SEEN] = turns[:, NAME_START] = 0
    view = text.data
    for at in np.flatnonzero(turns[:, KIND] == USER).tolist():
        turn = turns[at]
        start = int(turn[START])
        raw = bytes(view[start - base : int(turn[END]) - base])
        content = raw.decode(errors="replace")
        for pattern, named, bodied in patterns:
            match = pattern.match(content)
            if match is None:
                continue
            seen, name = (match.end(), len(content)), match.span("name") if named else (-1, -1)
            if bodied and match["content"] is not None:
                seen = match.span("content")
            places = [*seen, *(name if name[0] >= 0 else ())]
            if len(raw) != len(content):
                places = [len(content[:place].encode()) for place in places]
            turn[SEEN], turn[SEEN_START], turn[SEEN_END] = 1, start + places[0], start + places[1]
            if len(places) > 2:
                turn[NAME_START], turn[NAME_END] = start + places[2], start + places[3]
            break
