"""Canaries: real tests that demand what is false, so that whoever makes one pass makes tests pass that cannot.

A canary is an expected test under its own name, in its own place, with its own imports and calls; only what its last
check demands is changed. Each test runs in a jail of its own, so a process that runs one sees nothing else of its
kind: who does not know what the code should give cannot tell it from the real one.
"""

import ast
import random
import secrets
from collections.abc import Iterator, Mapping, Sequence

from tasks.verify.repository.twist import Edit, twisted

_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef)


def plant(
    files: Mapping[str, str], first: Sequence[str], rest: Sequence[str], runner: str, count: int
) -> list[tuple[str, dict[str, str]]]:
    """`count` canaries: the test's id and the test files in which it must fail; fewer (none) where no test can be one.

    first: the tests to take, before those of `rest`: what a forger must forge.
    """
    chance = random.Random(secrets.token_bytes(16))  # noqa: S311 - seeded by the system's generator
    planted = []
    for _ in range(count):
        ids = [*chance.sample(first, len(first)), *chance.sample(rest, len(rest))]
        made = ((test_id, _changed(files, test_id, runner, chance)) for test_id in ids)
        found = next(((test_id, text) for test_id, text in made if text is not None), None)
        if found is not None:
            planted.append(found)
    return planted


def _changed(files: Mapping[str, str], test_id: str, runner: str, chance: random.Random) -> dict[str, str] | None:
    if runner == "pytest":
        path, *names = test_id.partition("[")[0].split("::")
    else:
        *folders, group, name = test_id.split(".")
        path, names = "/".join(folders) + ".py", [group, name]
    try:
        tree = ast.parse(files.get(path, ""))
    except (SyntaxError, ValueError, RecursionError):
        return None
    node: ast.AST | None = tree
    for name in names:
        node = _child(node, name)
    if not isinstance(node, _DEFINED) or any(isinstance(each, ast.Return) for each in _own(node)):
        return None
    edit = twisted(node, chance)
    if edit is None:
        return None
    return {**files, path: _applied(files[path], edit)}


def _child(node: ast.AST | None, name: str) -> ast.AST | None:
    body = getattr(node, "body", [])
    found = [each for each in body if isinstance(each, (*_DEFINED, ast.ClassDef)) and each.name == name]
    return found[-1] if found else None


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*_DEFINED, ast.ClassDef, ast.Lambda)):
            yield from _own(child)


def _applied(text: str, edit: Edit) -> str:
    # Positions of the syntax tree count the bytes of UTF-8.
    lines = text.encode().splitlines(keepends=True)
    start, end = (sum(map(len, lines[: line - 1])) + column for line, column in (edit.start, edit.end))
    data = b"".join(lines)
    return (data[:start] + edit.text.encode() + data[end:]).decode()
