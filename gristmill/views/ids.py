"""Ids as people see and type them: cut to their first twelve signs with a mark, and taken with or without it."""

import re
from collections.abc import Iterator

SIGNS, SHOWN, MARK = 32, 12, "…"

# Ids, fingerprints and hashes of sets: 32 hexadecimal digits, of which twelve tell them apart for people.
_ID = re.compile(rf"(?<![0-9a-f])([0-9a-f]{{{SHOWN}}})[0-9a-f]{{{SIGNS - SHOWN}}}(?![0-9a-f])")
_OURS = r"id|item_id|task_id|trajectory_id|parent_id|fingerprint|scope_hash"
_COMPARED = re.compile(
    rf"\b({_OURS})\"?\s*(?:==?|\bin\s*\()\s*'([0-9a-f]{{4,{SIGNS - 1}}})(?:{MARK}|\.\.\.)?'", re.IGNORECASE
)


def short(text: str) -> str:
    """The text with every id in it cut and marked: for people only, never for programs or files."""
    return _ID.sub(rf"\1{MARK}", text)


def given(ref: str) -> str:
    """An id, or the start of one, as someone copied it from a table: without the mark."""
    return ref.strip().rstrip(f"{MARK}.")


def never_equal(sql: str) -> Iterator[str]:
    """A sentence per comparison of an id with a text that is too short to be one: no row can have it."""
    for column, start in dict.fromkeys(_COMPARED.findall(sql)):
        yield (
            f"hint: no {column} is '{start}': ids have {SIGNS} signs, this has {len(start)}. "
            f"Write: starts_with({column}, '{start}')"
        )
