"""Finds secrets and personal data in text; what it found is told apart by hash, never by its value.

Secrets by the detectors of bc-detect-secrets that know a form (keys, tokens, private keys, credentials in URLs),
without those that guess by entropy or by a neighbouring word. Personal data by form and, where it has one, check
sum: mail addresses outside reserved domains, international telephone numbers, card numbers (Luhn), IBANs.
"""

import functools
import importlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.errors import MissingExtra
from schemas.ids import digest

_GUESSING = frozenset({"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector"})
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24}(?![\w-])")
_RESERVED = re.compile(
    r"@(?:.*\.)?(?:example(?:\.\w+)?|test|invalid|localhost|local)$|^(?:git|noreply|no-reply)@", re.I
)
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
        for plugin in _plugins():
            for value in set(plugin.analyze_string(text)):
                found += _places(text, value, plugin.secret_type)
    for kind, pattern in (("email", _MAIL), ("phone", _PHONE), ("card", _CARD), ("iban", _IBAN)):
        if kind in kinds:
            for match in pattern.finditer(text):
                if _holds(kind, match.group()):
                    found.append(Finding(kind, kind, *match.span(), digest(match.group())))
    return sorted(found, key=lambda one: (one.start, one.end, one.detector))


def redacted(text: str, findings: Sequence[Finding]) -> str:
    """The text with `<kind>` in place of each finding; of overlapping ones the first counts."""
    parts, at = [], 0
    for finding in findings:
        if finding.start >= at:
            parts += [text[at : finding.start], f"<{finding.kind}>"]
            at = finding.end
    return "".join([*parts, text[at:]])


def _places(text: str, value: str, detector: str) -> list[Finding]:
    return [
        Finding("secret", detector, match.start(), match.end(), digest(value))
        for match in re.finditer(re.escape(value), text)
    ]


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
