"""Personal data by form and, where it has one, check sum, with what looks alike in the logs of agents left alone.

Mail addresses outside reserved domains (internationalised, full-width and escaped ones too); telephone numbers,
international or as written in North America; card numbers by issuer, length and Luhn's check; IBANs by country, length
and check sum (ISO 13616); US social security numbers. A number beside a letter, a path or a fraction is none of these.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_MAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}(?:[@＠]|%40|\\u0040|&#64;)(?:(?:[^\W_]|-){1,63}[.．。｡]){1,8}"
    r"(?:[^\W\d_]{2,24}|xn--[A-Za-z0-9-]{2,59})(?![\w-])"
)
_AT = re.compile(r"%40|\\u0040|&#64;", re.I)
_RESERVED = re.compile(
    r"@(?:.*\.)?(?:example(?:\.\w+)?|test|invalid|localhost|local)$|^(?:git|noreply|no-reply)@", re.I
)
# What a version or a file of an agent's log ends with, where an address would have its domain: `tool@2x.png`.
_FILE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|css|js|json|txt|tgz|gz|zip)$", re.I)
_URL_USER = re.compile(r"://[^\s/@]*$")
_URL_PASSWORD = re.compile(r":[^\s/@\"'<>]{1,200}@")
_PHONE = re.compile(r"(?<![\w+])\+[1-9]\d{0,2}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}(?!\w)")
_NORTH_AMERICAN = re.compile(
    r"(?<![\w.+/:-])(?:1[ .-])?(?:\([2-9]\d{2}\) ?[2-9]\d{2}[ .-]|[2-9]\d{2}([.-])[2-9]\d{2}\1)\d{4}(?![\w/:-]|\.\w)"
)
_UNREAL = re.compile(r"\D*1?\D*\d{3}\D*55501\d\d")
_CARD = re.compile(
    r"(?<![\w./-])\d(?:\d{12,18}|\d{3}(?:([ ._\u00a0\u202f-])\d{4}){3}(?:\1\d{3})?"
    r"|\d{3}([ ._\u00a0\u202f-])\d{6}\2\d{4,5})"
    r"(?![\w-]|\.\w|[ ._\u00a0\u202f]\d{4}(?!\d))"
)
# Issuers' first digits and lengths: Visa, Mastercard, American Express, Discover, Diners, JCB, UnionPay, Maestro.
_ISSUED = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}"
    r"|(?:6011|65\d\d|64[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}|6759\d{12,15}"
)
_SSN = re.compile(r"(?<![\w./:-])(?!000|666|9)\d{3}([-. \u00a0_])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-]|[.:]\w)")
_SSN_NAMED = re.compile(r"\bssn|social.?security", re.I)
_IBAN = re.compile(r"(?<!\w)([A-Za-z]{2})\d{2}(?=[ \u00a0-]?[A-Za-z0-9]{4})")
# Lengths by country (the registry of ISO 13616).
_IBAN_LENGTHS = (
    "NO15 BE16 DK18 FI18 FO18 GL18 NL18 MK19 SI19 AT20 BA20 EE20 KZ20 LT20 LU20 XK20 CH21 HR21 LI21 LV21 "
    "BG22 BH22 CR22 DE22 GB22 GE22 IE22 ME22 RS22 AE23 GI23 IL23 IQ23 AD24 CZ24 ES24 MD24 PK24 RO24 SA24 "
    "SE24 SK24 TN24 VG24 PT26 IS26 TR26 FR27 GR27 IT27 MC27 MR27 SM27 AL28 AZ28 BY28 CY28 DO28 GT28 HU28 "
    "LB28 PL28 BR29 EG29 PS29 QA29 UA29 JO30 KW30 MU30 MT31 SC31 LC32"
)


class Place(NamedTuple):
    """Where in the text personal data of a kind stands."""

    kind: str
    start: int
    end: int


def personal(text: str, kind: str) -> Iterator[Place]:
    """All places of one kind: email, phone, card, iban, ssn."""
    for start, end in _KINDS[kind](text):
        yield Place(kind, start, end)


def _emails(text: str) -> Iterator[tuple[int, int]]:
    for match in _MAIL.finditer(text):
        plain = unicodedata.normalize("NFKC", _AT.sub("@", match.group()))
        if not _RESERVED.search(plain) and not _FILE.search(plain) and not _in_url(text, *match.span()):
            yield match.span()


def _in_url(text: str, start: int, end: int) -> bool:
    """Whether a URL's user and password stand here, which look like a mail address before the host."""
    return _URL_USER.search(text, max(0, start - 200), start) is not None and not _URL_PASSWORD.match(text, end)


def _phones(text: str) -> Iterator[tuple[int, int]]:
    for match in _PHONE.finditer(text):
        yield match.span()
    for match in _NORTH_AMERICAN.finditer(text):
        # The numbers of films and manuals, 555-0100 to 555-0199, are nobody's.
        if not _UNREAL.fullmatch(re.sub(r"\D", "", match.group())):
            yield match.span()


def _cards(text: str) -> Iterator[tuple[int, int]]:
    for match in _CARD.finditer(text):
        digits = [int(sign) for sign in match.group() if sign.isdecimal()]
        doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
        if (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 and _ISSUED.fullmatch("".join(map(str, digits))):
            yield match.span()


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    for head in _IBAN.finditer(text):
        whole = _iban_of(head[1].upper())
        match = whole.match(text, head.start()) if whole else None
        if match:
            plain = re.sub(r"[ \u00a0-]", "", match.group()).upper()
            if int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1:
                yield match.span()


@functools.cache
def _iban_of(country: str) -> re.Pattern[str] | None:
    """The form of a country's IBANs, in groups of four or in one."""
    lengths = {entry[:2]: int(entry[2:]) for entry in _IBAN_LENGTHS.split()}
    if country not in lengths:
        return None
    groups, rest = divmod(lengths[country] - 4, 4)
    end = rf"[ \u00a0-]?[A-Za-z0-9]{{{rest}}}" if rest else ""
    return re.compile(rf"[A-Za-z]{{2}}[0-9]{{2}}(?:[ \u00a0-]?[A-Za-z0-9]{{4}}){{{groups}}}{end}(?!\w)")


def _ssns(text: str) -> Iterator[tuple[int, int]]:
    for match in _SSN.finditer(text):
        # With other separators than its own it is a row of numbers, unless something before it says what it is.
        if match[1] == "-" or _SSN_NAMED.search(text, max(0, match.start() - 40), match.start()):
            yield match.span()


_KINDS = {"email": _emails, "phone": _phones, "card": _cards, "iban": _ibans, "ssn": _ssns}
