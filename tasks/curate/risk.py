"""Finds secrets and personal data in text; what it found is told apart by hash, never by its value.

Secrets are private keys, the forms of `tasks.shapes`, and what those detectors of bc-detect-secrets find that know a
form (keys, tokens, credentials in URLs), without those that guess by entropy or by a neighbouring word. Personal
data are those of `tasks.curate.personal`.
"""

import functools
import importlib
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, Literal, NamedTuple

from schemas.errors import MissingExtra
from schemas.ids import digest
from tasks.curate.personal import personal
from tasks.shapes import assigned, tokens

Kind = Literal["secret", "email", "phone", "card", "iban", "ssn"]

# What stands in place of a finding: its kind, and a number where values are told apart.
PLACEHOLDER = re.compile(r"<(secret|email|phone|card|iban|ssn)(?:_(\d{1,6}))?>")
# Those that guess, and two of what is found here better: whole, and not in the square of the length.
_SKIPPED = frozenset(
    {"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "JwtTokenDetector", "PrivateKeyDetector"}
)
_KEY_LINE = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# No key is as long as this many characters.
_KEY_LIMIT = 1 << 16
# The body of a key of which the end is cut off: lines of base64, their ends written out or not.
_KEY_BODY = re.compile(
    r"(?:(?:\\[rn]|\s){0,8}[A-Za-z0-9+/=]{16,}+)++"
    r"(?:(?:\\r|\r)?(?:\\n|\n)[A-Za-z0-9+/=]++(?=[\"'`\\\s]|\Z))?"
)


class Finding(NamedTuple):
    """A place of risk: its kind (secret, email, phone, card, iban, ssn), the detector, and where it stands."""

    kind: str
    detector: str
    start: int
    end: int
    hashed: str


def find(text: str, kinds: Sequence[str]) -> list[Finding]:
    """All findings of `kinds`, by place. MissingExtra for `secret` without the extra `curate`."""
    found: list[Finding] = []
    if "secret" in kinds:
        own = [*_keys(text), *_shaped(text)]
        found += own
        found += _outside(_secrets(text), own)
    for kind in ("email", "phone", "card", "iban", "ssn"):
        if kind in kinds:
            for _, start, end in personal(text, kind):
                found.append(Finding(kind, kind, start, end, digest(text[start:end])))
    return sorted(found, key=lambda one: (one.start, one.end, one.detector))


def redacted(text: str, findings: Sequence[Finding], name: Callable[[Finding], str] = lambda one: one.kind) -> str:
    """The text with `<name>` in place of each finding; overlapping ones become one, under the name of the first."""
    parts, at = [], 0
    for finding in findings:
        if finding.start >= at:
            parts += [text[at : finding.start], f"<{name(finding)}>"]
        at = max(at, finding.end)
    return "".join([*parts, text[at:]])


def _keys(text: str) -> Iterator[Finding]:
    """Private keys, whole or cut off, in one pass over their first and last lines."""
    begun: re.Match[str] | None = None
    for line in chain(_KEY_LINE.finditer(text), (None,)):
        if begun is not None:
            whole = line is not None and line[1] == "END" and line.end() - begun.start() <= _KEY_LIMIT
            body = None if whole else _KEY_BODY.match(text, begun.end())
            end = line.end() if whole and line is not None else body.end() if body else None
            if end is not None:
                yield Finding("secret", "Private Key", begun.start(), end, digest(text[begun.start() : end]))
        begun = line if line is not None and line[1] == "BEGIN" else None


def _shaped(text: str) -> Iterator[Finding]:
    """Secrets of the forms that `tasks.shapes` knows."""
    for name, start, end in chain(tokens(text), assigned(text)):
        # What was replaced already is no secret any more.
        if not PLACEHOLDER.search(text, start, end):
            yield Finding("secret", name, start, end, digest(text[start:end]))


def _outside(findings: Iterable[Finding], others: Sequence[Finding]) -> Iterator[Finding]:
    """Those of `findings` that lie within none of the others."""
    spans = sorted((one.start, one.end) for one in others)
    reach = list(accumulate((end for _, end in spans), max))
    for one in findings:
        before = bisect_right(spans, (one.start, sys.maxsize))
        if not before or reach[before - 1] < one.end:
            yield one


def _secrets(text: str) -> Iterator[Finding]:
    """What the detectors find, at its places."""
    for plugin in _plugins():
        values = set(plugin.analyze_string(text))
        for pattern in plugin.denylist if values else ():
            for match in pattern.finditer(text):
                groups = [number for number in range(pattern.groups + 1) if match[number]]
                # A detector may refuse what its pattern matches, by a check sum.
                if not values & {match[number] for number in groups}:
                    continue
                # A group within the match is the secret; one at its beginning is only what the secret begins with.
                start, end = match.span(groups[1] if len(groups) > 1 else 0)
                end = match.end() if start == match.start() else end
                # What was replaced already is no secret any more.
                if PLACEHOLDER.fullmatch(text, start, end):
                    continue
                yield Finding("secret", plugin.secret_type, start, end, digest(text[start:end]))


@functools.cache
def _plugins() -> tuple[Any, ...]:
    try:
        util = importlib.import_module("detect_secrets.core.plugins.util")
    except ImportError as error:
        raise MissingExtra("bc-detect-secrets", "curate") from error
    classes = util.get_mapping_from_secret_type_to_class().values()
    return tuple(cls() for cls in sorted(classes, key=lambda cls: cls.__name__) if cls.__name__ not in _SKIPPED)
