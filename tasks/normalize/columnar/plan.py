"""An importer's dialect as the kernels take it: the names that its records use, and how calls hide in text."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from schemas.vocabulary import Source
from tasks.normalize.columnar import calls
from tasks.normalize.columnar.memory import Array, address
from tasks.normalize.columnar.observe import words_of_patterns
from tasks.normalize.columnar.tables import (
    AGENT,
    ENVIRONMENT,
    HAS_HERMES,
    HAS_THINK,
    NEXT_OBSERVES,
    ODD,
    ONLY_OBSERVED,
    RESULT,
    SYSTEM,
    USER,
)
from tasks.normalize.columnar.words import words_of
from tasks.normalize.plain import Plain

_KINDS = {Source.SYSTEM: SYSTEM, Source.USER: USER, Source.AGENT: AGENT, Source.ENVIRONMENT: RESULT}
# Roles that mean more than who speaks.
_MEANING = frozenset({"developer", "function_call"})


class Prepared(NamedTuple):
    """The tables `terms` and `plan` (see `tables`), and what they point to; whether the observation patterns are words;
    the length of the longest tool name of their own; a role that can stand in for a turn.
    """

    terms: Array
    plan: Array
    held: tuple[object, ...]
    by_words: bool
    longest: int
    role: str


@lru_cache(maxsize=16)
def prepare(plain: Plain) -> Prepared | None:
    """What the kernels need to read records of this kind, made once; None where they know nothing of it."""
    reader, dialect = plain.reader, plain.reader.dialect
    role = next((name for name, source in reader.roles.items() if source is Source.USER and name not in _MEANING), None)
    if role is None or plain.role == plain.content:
        return None
    words, pairs, own = list(calls.COMMON), list[int](), list[str]()
    for name in dialect.calls:
        family, _, argument = name.partition(":")
        number, arguments = _FAMILIES[family](argument)
        pairs += [number, len(words)]
        words += arguments
        own += arguments
    flags = (
        ONLY_OBSERVED * dialect.only_observed
        + HAS_THINK * dialect.think
        + NEXT_OBSERVES * reader.next_observes
        + HAS_HERMES * reader.hermes
    )
    observed = words_of_patterns(reader.observations)
    fields, keys, roles = words_of(plain.fields), words_of([plain.role, plain.content]), words_of(list(reader.roles))
    marks, patterns = words_of([*words, "<think>", "<tool_response>"]), words_of(observed or [])
    kinds = np.array([_kind(name, source) for name, source in reader.roles.items()], np.int64)
    decoders = np.array(pairs, np.int64)
    terms = [
        address(fields.table),
        fields.number,
        address(keys.table),
        address(roles.table),
        roles.number,
        address(kinds),
    ]
    plan = [address(marks.table), address(decoders), len(pairs) // 2, int(flags), len(words), len(words) + 1]
    plan += [address(patterns.table), patterns.number]
    return Prepared(
        np.array(terms, np.int64),
        np.array(plan, np.int64),
        (fields, keys, roles, marks, patterns, kinds, decoders),
        observed is not None,
        max(len(word.encode()) for word in ["python", *own]),
        role,
    )


_FAMILIES: dict[str, Callable[[str], tuple[int, list[str]]]] = {
    "hermes": lambda _: (calls.HERMES, []),
    "function_xml": lambda _: (calls.FUNCTION_XML, []),
    "react": lambda word: (calls.REACT, [f"{word or 'Action'}:", f"\n{word or 'Action'} Input:"]),
    "execute": lambda tag: (calls.EXECUTE, [f"<{tag or 'execute'}>", f"</{tag or 'execute'}>"]),
    "fenced": lambda language: (calls.FENCED, [language or "bash"]),
    "code": lambda language: (calls.CODE, [language or "python"]),
}


def _kind(name: str, source: Source) -> int:
    if name in _MEANING:
        return ODD
    return ENVIRONMENT if name == "environment" and source is Source.ENVIRONMENT else _KINDS[source]
