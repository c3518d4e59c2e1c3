"""Reads and applies unified diffs to texts held in memory: exactly, without fuzz, offsets or file access."""

import re
from typing import NamedTuple

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ODD = re.compile(
    r"^(?:(?:old|new) mode|rename |copy |GIT binary|Binary files|new file mode 1[26]|deleted file mode 1[26])"
)


class PatchError(Exception):
    """The text is no patch that can be applied; `reason` is not_a_patch, does_not_apply or unsupported."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}" if detail else reason)


class Hunk(NamedTuple):
    """Lines of the old text from `start` (0-based) on, and what takes their place; each line with its end."""

    start: int
    old: list[str]
    new: list[str]


class Change(NamedTuple):
    """One file: its path before and after (None: it did not, or does not, exist) and the hunks."""

    before: str | None
    after: str | None
    hunks: list[Hunk]


def parse(text: str) -> list[Change]:
    """The changes of a unified diff (git's or plain). PatchError when there is none, or of a kind not known here."""
    lines = text.splitlines(keepends=True)
    changes: list[Change] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if _ODD.match(line):
            raise PatchError("unsupported", line.strip())
        if line.startswith("--- ") and index + 1 < len(lines) and lines[index + 1].startswith("+++ "):
            before, after = _path(line), _path(lines[index + 1])
            hunks, index = _hunks(lines, index + 2)
            if not hunks or (before is None and after is None):
                raise PatchError("not_a_patch", "a file without a change")
            changes.append(Change(before, after, hunks))
            continue
        index += 1
    if not changes:
        raise PatchError("not_a_patch")
    return changes


def _path(line: str) -> str | None:
    name = line[4:].partition("\t")[0].strip()
    if name == "/dev/null":
        return None
    name = name[2:] if name[:2] in ("a/", "b/") else name
    parts = name.split("/")
    if not name or name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise PatchError("unsupported", f"the path {name!r}")
    return name


def _hunks(lines: list[str], index: int) -> tuple[list[Hunk], int]:
    hunks = []
    while index < len(lines) and (found := _HUNK.match(lines[index])):
        wanted = [int(found[2] or 1), int(found[4] or 1)]
        old: list[str] = []
        new: list[str] = []
        index += 1
        while index < len(lines) and (len(old) < wanted[0] or len(new) < wanted[1]):
            mark, body = lines[index][:1], lines[index][1:]
            if mark == "\\":
                pass
            elif mark in (" ", "\n", "\r"):
                # Some tools strip the blank of an empty context line.
                old.append(body or "\n")
                new.append(body or "\n")
            elif mark == "-":
                old.append(body)
            elif mark == "+":
                new.append(body)
            else:
                raise PatchError("not_a_patch", "a hunk is cut short")
            index += 1
            if index < len(lines) and lines[index].startswith("\\"):
                for side in [old] if mark == "-" else [new] if mark == "+" else [old, new]:
                    side[-1] = side[-1].rstrip("\n")
                index += 1
        if [len(old), len(new)] != wanted:
            raise PatchError("not_a_patch", "a hunk is cut short")
        hunks.append(Hunk(max(0, int(found[1]) - (1 if wanted[0] else 0)), old, new))
    return hunks, index


def apply(files: dict[str, str], changes: list[Change]) -> dict[str, str]:
    """The files after the changes; the given ones are not touched. PatchError `does_not_apply` when a line differs."""
    result = dict(files)
    for change in changes:
        if change.before is not None and change.before not in result:
            raise PatchError("does_not_apply", f"there is no {change.before}")
        if change.before is None and change.after in result:
            raise PatchError("does_not_apply", f"{change.after} exists")
        lines = result.pop(change.before).splitlines(keepends=True) if change.before is not None else []
        made: list[str] = []
        at = 0
        for hunk in change.hunks:
            if hunk.start < at or not _same(lines[hunk.start : hunk.start + len(hunk.old)], hunk.old):
                raise PatchError("does_not_apply", f"{change.before or change.after}, line {hunk.start + 1}")
            made += lines[at : hunk.start] + hunk.new
            at = hunk.start + len(hunk.old)
        made += lines[at:]
        if change.after is not None:
            result[change.after] = "".join(made)
    return result


def _same(have: list[str], want: list[str]) -> bool:
    # A model's text often lacks the last line's end; that alone is no difference.
    return have == want or [line.rstrip("\r\n") for line in have] == [line.rstrip("\r\n") for line in want]
