"""Finds secrets and personal data in text; what it found is told apart by hash, never by its value.

Secrets are whole private keys and what those detectors of bc-detect-secrets find that know a form (keys, tokens,
credentials in URLs), without those that guess by entropy or by a neighbouring word. Personal data by form and, where
it has one, check sum: mail addresses outside reserved domains, international telephone numbers, card numbers (Luhn),
IBANs.
"""

import functools
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from schemas.errors import MissingExtra
from schemas.ids import digest

Kind = Literal["secret", "email", "phone", "card", "iban"]

# What stands in place of a finding: its kind, and a number where values are told apart.
PLACEHOLDER = re.compile(r"<(secret|email|phone|card|iban)(?:_(\d{1,6}))?>")
_GUESSING = frozenset({"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector"})
_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.S
)
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24}(?![\w-])")
_RESERVED = re.compile(
    r"@(?:.*\.)?(?:example(?:\.\w+)?|test|invalid|localhost|local)$|^(?:git|noreply|no-reply)@", re.I
)
_URL_USER = re.compile(r"://[^\s/@]*$")
_PHONE = re.compile(r"(?<![\w+])\+[1-9]\d{0,2}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}(?!\w)")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w.-])")
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")


class Finding(NamedTuple):
    """A place of risk: its kind (secret, email, phone, card, iban), the detector, and where in the text it stands."""

    kind: str
    detector: str
    start: int
    end: int
    hashed: str


def find(text: str, kinds: Sequence[str]) -> list[Finding]:
    """All findings of `kinds`, by place. MissingExtra for `secret` without the extra `curate`."""
    found: list[Finding] = []
    if "secret" in kinds:
        keys = [Finding("secret", "Private Key", *m.span(), digest(m.group())) for m in _KEY.finditer(text)]
        found += keys
        found += (one for one in _secrets(text) if not any(k.start <= one.start and one.end <= k.end for k in keys))
    for kind, pattern in (("email", _MAIL), ("phone", _PHONE), ("card", _CARD), ("iban", _IBAN)):
        if kind in kinds:
            for match in pattern.finditer(text):
                if _holds(kind, match.group()) and not (kind == "email" and _in_url(text, match.start())):
                    found.append(Finding(kind, kind, *match.span(), digest(match.group())))
    return sorted(found, key=lambda one: (one.start, one.end, one.detector))


def redacted(text: str, findings: Sequence[Finding], name: Callable[[Finding], str] = lambda one: one.kind) -> str:
    """The text with `<name>` in place of each finding; overlapping ones become one, under the name of the first."""
    parts, at = [], 0
    for finding in findings:
        if finding.start >= at:
            parts += [text[at : finding.start], f"<{name(finding)}>"]
        at = max(at, finding.end)
    return "".join([*parts, text[at:]])


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


def _in_url(text: str, at: int) -> bool:
    """Whether a URL's user and password stand here, which look like a mail address before the host."""
    return _URL_USER.search(text[max(0, at - 200) : at]) is not None


def _holds(kind: str, text: str) -> bool:
    if kind == "email":
        return _RESERVED.search(text) is None
    if kind == "card":
        digits = [int(sign) for sign in text if sign.isdigit()]
        doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
        return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
    if kind == "iban":
        plain = text.replace(" ", "")
        return int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1
    return True


@functools.cache
def _plugins() -> tuple[Any, ...]:
    try:
        util = importlib.import_module("detect_secrets.core.plugins.util")
    except ImportError as error:
        raise MissingExtra("bc-detect-secrets", "curate") from error
    classes = util.get_mapping_from_secret_type_to_class().values()
    return tuple(cls() for cls in sorted(classes, key=lambda cls: cls.__name__) if cls.__name__ not in _GUESSING)
