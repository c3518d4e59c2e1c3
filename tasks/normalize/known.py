"""Which fields of a nested record a reader accounts for; all others are named as lost.

A tree of known fields is written as text: "id message{role content[]{type text}}". A name without braces is
accounted for with everything below it; `[]` goes through lists; `*` stands for any name.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tasks.normalize.draft import Draft

Tree = dict[str, "Tree | None"]
_WORD = re.compile(r"[^\s{}]+|[{}]")


@lru_cache(maxsize=128)
def tree_of(text: str) -> Tree:
    """The tree that a text describes."""
    stack: list[Tree] = [{}]
    last = ""
    for word in _WORD.findall(text):
        if word == "{":
            below: Tree = {}
            stack[-1][last] = below
            stack.append(below)
        elif word == "}":
            stack.pop()
        else:
            last = word.removesuffix("[]")
            stack[-1].setdefault(last, None)
    return stack[0]


def lose_unknown(draft: Draft, value: Any, known: str, where: str = "") -> None:
    """Names every field of `value` outside `known` that holds something. where: a prefix of the names."""
    draft.lost.update(_unknown(value, tree_of(known), where))


def _unknown(value: Any, tree: Tree, where: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _unknown(item, tree, where if where.endswith("[]") or not where else f"{where}[]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            if inner is None or inner in ("", [], {}):
                continue
            below = tree.get(key, tree.get("*", _MISSING))
            path = f"{where}.{key}" if where else key
            if below is _MISSING:
                yield path
            elif below is not None and isinstance(inner, dict | list):
                yield from _unknown(inner, below, path)


_MISSING: Tree = {"": None}
