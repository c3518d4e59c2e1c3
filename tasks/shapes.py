"""The forms that secrets have, in one table: the log redactor masks them, `data_risk` finds them in trajectories.

Tokens carry the prefixes that their issuers document. What has no form of its own (a password, an AWS secret key, the
value of an Authorization header) is told by what stands before it and must look made: letters and digits, no
placeholder, no code. Every pattern begins with a literal or looks at a bounded window, and what it matches is consumed:
a search takes time in proportion to the text.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

_WORD, _DASHED = r"[A-Za-z0-9]", r"[A-Za-z0-9_\-]"
# Name, prefixes, and what follows them.
_TOKENS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("Provider Key", ("sk-", "sk_", "pk_", "pk-", "rk_", "rk-", "csk-"), _DASHED + "{16,}+"),
    ("Provider Key", ("gsk_", "xai-", "pplx-", "nvapi-", "tgp_v1_"), _DASHED + "{16,}+"),
    ("Hugging Face Token", ("hf_",), _WORD + "{20,}+"),
    ("GitHub Token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _WORD + "{20,}+"),
    ("GitHub Token", ("github_pat_",), "[A-Za-z0-9_]{20,}+"),
    ("GitLab Token", ("glpat-", "gldt-", "glrt-", "glptt-"), _DASHED + "{16,}+"),
    ("Slack Token", tuple(f"xox{kind}-" for kind in "abeoprs"), r"[A-Za-z0-9\-]{10,}+"),
    ("Google Key", ("AIza",), _DASHED + "{30,}+"),
    ("Google Secret", ("GOCSPX-",), _DASHED + "{20,}+"),
    ("AWS Key Id", ("AKIA", "ASIA"), "[A-Z0-9]{16}"),
    ("JSON Web Token", ("eyJ",), rf"(?<![_\-]eyJ){_DASHED}{{8,}}+\.{_DASHED}{{8,}}+\.{_DASHED}{{8,}}+"),
    ("npm Token", ("npm_",), _WORD + "{30,}+"),
    ("PyPI Token", ("pypi-",), _DASHED + "{40,}+"),
    ("Docker Token", ("dckr_pat_",), _DASHED + "{20,}+"),
    ("DigitalOcean Token", ("dop_v1_", "doo_v1_", "dor_v1_"), "[a-f0-9]{40,}+"),
    ("Databricks Token", ("dapi",), "[a-f0-9]{32}(?![A-Za-z0-9])"),
)
# Beginnings of provider keys that nothing else has; the others are also beginnings of words ("sk-learn-...").
_TELLING = re.compile(r"(?:proj|ant|svcacct|admin|or-v1|live|test|lf)[-_]")
_MIXED = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{12,}")
_TELEGRAM = re.compile(r":AA(?<=\d{8}:AA)[A-Za-z0-9_\-]{33}(?![A-Za-z0-9_\-])")
_BOT = re.compile(r"(?<!\d)\d{8,10}$")
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS_WINDOW = 120
_HEADER = re.compile(r"\b(?:(bearer)|basic)[ \t]{1,8}[\"']?([A-Za-z0-9_\-.=+/~]{12,}+)", re.I)
_ASSIGNED = re.compile(
    r"(?:passw(?:or)?d|passphrase|pwd|secret|(?:api|access|secret|account|private)[_\- ]?key|"
    r"(?:auth|access|refresh|bot)[_\-]?token)\\?[\"'`]?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}"
    r"(?:\\?\"([^\s\"\\]{8,200})\\?\"|'([^\s'\\]{8,200})'|([^\s\"'`<>(){}\[\],;$&|\\]{8,200}+)(?![(\[{$<]))",
    re.I,
)
# A user that is a mail address: its password stands between the second colon and the second "@".
_LOGIN = re.compile(r"://[^\s/@:\"'<>]{1,100}@[^\s/@:\"'<>]{1,100}:([^\s/@\"'<>]{1,200})@")
_PLACEHOLDER = re.compile(
    r"test|example|dummy|fake|sample|change|passw|secret|xxx|placeholder|your|foo|bar|mypass|admin|1234|abc|qwer|redact"
    r"|mock|none|null|demo|hash|user|token|<|\$\{|\{\{|%\(|\*\*\*",
    re.I,
)
_LONG_PLACEHOLDER = re.compile(
    r"example|xxxx|your|placeholder|<|\$\{|\{\{|%\(|\*\*\*|pbkdf2|sha256|sha512|bcrypt", re.I
)
_CODE = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]|[/\\].*[/\\].*\.\w{1,4}$|^[a-z]+(?:_[a-z0-9]+)+$|://")


class Secret(NamedTuple):
    """Where in the text a secret stands, and what it is."""

    name: str
    start: int
    end: int


def _compiled() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    # The look behind comes after the prefix: a pattern that begins with a literal is searched at memory's speed.
    return tuple(
        (name, prefix, re.compile(rf"{re.escape(prefix)}(?<![A-Za-z0-9]{re.escape(prefix)}){rest}"))
        for name, prefixes, rest in _TOKENS
        for prefix in prefixes
    )


_PATTERNS = _compiled()


def tokens(text: str) -> Iterator[Secret]:
    """Tokens that tell by their own form what they are."""
    for name, prefix, pattern in _PATTERNS:
        if prefix in text:
            for match in pattern.finditer(text):
                if name != "Provider Key" or _is_key(prefix, match.group()[len(prefix) :]):
                    yield Secret(name, *match.span())
    for match in _TELEGRAM.finditer(text):
        before = _BOT.search(text, max(0, match.start() - 11), match.start())
        if before:
            yield Secret("Telegram Bot Token", before.start(), match.end())


def assigned(text: str) -> Iterator[Secret]:
    """Values that what stands before them gives away: headers, names, an AWS key id."""
    for match in _HEADER.finditer(text):
        value = match[2]
        if _made(value, least=16) if match[1] else _is_basic(value):
            yield Secret("Authorization Header", *match.span(2))
    for match in _ASSIGNED.finditer(text):
        group = match.lastindex or 0
        if _made(match[group], least=8) and not (group == 3 and _CODE.search(match[group])):
            yield Secret("Assigned Secret", *match.span(group))
    for match in _LOGIN.finditer(text):
        yield Secret("URL Password", *match.span(1))
    for prefix in ("AKIA", "ASIA"):
        for name, start, end in tokens(text) if prefix in text else ():
            if name == "AWS Key Id" and text.startswith(prefix, start):
                secret = _AWS_SECRET.search(text, end, end + _AWS_WINDOW)
                if secret and _made(secret.group(), least=40) and re.search("[G-Zg-z]", secret.group()):
                    yield Secret("AWS Secret Key", *secret.span())


def masked(text: str, mask: str) -> str:
    """The text with `mask` in place of each token."""
    parts, at = [], 0
    for _, start, end in sorted(tokens(text), key=lambda one: (one.start, -one.end)):
        if start >= at:
            parts += [text[at:start], mask]
        at = max(at, end)
    return "".join([*parts, text[at:]])


def _is_key(prefix: str, rest: str) -> bool:
    """A digit somewhere: "task-based-..." is none; and for short prefixes more than words with numbers between."""
    if not any(sign.isdigit() for sign in rest):
        return False
    return prefix not in _SHORT or _TELLING.match(rest) is not None or _MIXED.search(rest) is not None


_SHORT = frozenset({"sk-", "sk_", "pk_", "pk-", "rk_", "rk-", "csk-"})


def _made(value: str, *, least: int) -> bool:
    """Whether a value looks made up by a machine or a careful person: not a word, not a placeholder."""
    if len(value) < least or not re.search(r"\d", value) or not re.search(r"[A-Za-z]", value):
        return False
    return (_LONG_PLACEHOLDER if len(value) >= 20 else _PLACEHOLDER).search(value) is None


def _is_basic(value: str) -> bool:
    """Basic credentials are base64 of user:password (RFC 7617); "basic arithmetic" is not."""
    try:
        return b":" in base64.b64decode(value, validate=True) and len(value) % 4 == 0
    except (binascii.Error, ValueError):
        return False
