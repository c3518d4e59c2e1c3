"""The one redactor: no key reaches a log, a dead letter, a cache row or an orchestrator's parameters.

Two nets. Exact: the values of the environment variables that recipes name as keys (`mark_env`). Shape: the
forms that providers' keys have, bearer headers, and credentials in URLs. Text that a model wrote goes through
the exact net only (`redact_exact`): an answer with a made-up key in it must stay as it was sampled.
"""

import logging
import os
import re
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from schemas.errors import UserError
from tasks.shapes import masked, tokens

MASK = "[redacted]"

# Shorter values ("x", "none", "EMPTY") are placeholders for servers that want any key; masking them would
# punch holes into ordinary text.
MIN_SECRET = 8

# A digit or padding behind the word: "basic arithmetic" and "bearer of news" are prose.
_BEARER = re.compile(
    r"(?i)\b(?:(bearer|basic)\s+[\"']?(?=[^\s\"']*[0-9=])|(x-api-key:|api[-_]?key[\"']?\s*[:=])\s*[\"']?)"
    r"[A-Za-z0-9_\-\.=+/]{8,}"
)
_URL_CREDENTIALS = re.compile(r"(?i)\b([a-z][a-z0-9+.\-]{0,30}://)[^\s/@:\"']*:[^\s/@\"']+@")
_QUERY_KEYS = re.compile(r"(?i)([?&](?:api[-_]?key|key|token|access[-_]token|sig|signature|secret)=)[^&\s\"']+")
_SECRET_PARAMETERS = frozenset(
    {"api_key", "apikey", "key", "token", "access_token", "secret", "sig", "signature", "code"}
)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names of fields and headers that hold secrets, without "-" and "_": api_key, X-Api-Key, Cookie, client_secret.
_SECRET_FIELD = re.compile(r"(?:key|token|secret|password|passwd|cookie|authorization|bearer|credential|credentials)$")
# What ends like a secret and is none.
_PLAIN_FIELDS = frozenset({"maxtoken", "padtoken", "eostoken", "bostoken", "groupkey", "curriculumkey"})

_marked: set[str] = set()
_values: set[str] = set()
_lock = threading.Lock()


def mark_env(name: str) -> None:
    """From now on the value of this environment variable, present or future, is masked everywhere."""
    with _lock:
        _marked.add(name)


def marked_names() -> frozenset[str]:
    """The names of the marked variables; child processes get on without them."""
    with _lock:
        return frozenset(_marked)


def mark_value(value: str) -> None:
    """Masks this very text everywhere, whatever becomes of the variable it came from."""
    if len(value) >= MIN_SECRET:
        with _lock:
            _values.add(value)


def secrets() -> list[str]:
    """The marked values, longest first, so that one inside another cannot leave a tail."""
    with _lock:
        found = {value for name in _marked if (value := os.environ.get(name, "").strip())} | _values
    return sorted((value for value in found if len(value) >= MIN_SECRET), key=lambda value: (-len(value), value))


def redact_exact(text: str) -> str:
    """`text` with the marked values masked."""
    for value in secrets():
        if value in text:
            text = text.replace(value, MASK)
    return text


def redact(text: str) -> str:
    """`text` with marked values, key shapes, bearer headers and URL credentials masked."""
    text = redact_exact(text)
    text = _URL_CREDENTIALS.sub(rf"\1{MASK}@", text)
    text = _QUERY_KEYS.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(lambda found: f"{found[1] or found[2]} {MASK}", text)
    return masked(text, MASK)


def _secret_field(name: object) -> bool:
    """Whether a field or header of this name would hold a secret; `key_env` and the like name variables."""
    plain = str(name).lower().replace("-", "").replace("_", "")
    return plain not in _PLAIN_FIELDS and _SECRET_FIELD.search(plain) is not None


def redact_data(value: Any) -> Any:
    """The same for nested dicts, lists and tuples, as an orchestrator's parameters are."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {
            key: MASK if _secret_field(key) and isinstance(item, str) and item else redact_data(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_data(item) for item in value]
    return value


def check_url(url: str, where: str) -> str:
    """The URL, when it is http(s) and carries no credentials; else a UserError that does not repeat them."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise UserError(
            f"The URL in {where} carries credentials.", "Keys come from the environment.", 'Write key_env = "NAME".'
        )
    if any(name.lower() in _SECRET_PARAMETERS for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise UserError(
            f"The URL in {where} carries a key in its query.",
            "Keys come from the environment.",
            'Write key_env = "NAME".',
        )
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"{where} = {redact(url)!r} is no http(s) URL.", "", 'Write base_url = "https://HOST/v1".')
    return url


def check_key_env(name: str, where: str) -> str:
    """The variable's name, when it is one; a literal key in its place is refused without being repeated."""
    if not _ENV_NAME.fullmatch(name) or any(tokens(name)):
        raise UserError(
            f"key_env in {where} is not the name of an environment variable.",
            "A literal key is refused.",
            'Put the key into the environment and name the variable: key_env = "PROVIDER_API_KEY".',
        )
    return name


def refuse_secrets(value: Any, where: str = "recipe") -> None:
    """Walks a recipe (or one --set value) and raises UserError at the first literal key or URL with credentials."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if _secret_field(key) and isinstance(item, str) and item:
                raise UserError(
                    f"{where}.{key} would hold a key in plain text.",
                    "A literal key is refused.",
                    'Put the key into the environment and name the variable: key_env = "PROVIDER_API_KEY".',
                )
            refuse_secrets(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            refuse_secrets(item, f"{where}[{index}]")
    elif isinstance(value, str) and (redact(value) != value):
        raise UserError(
            f"{where} holds a key or credentials.",
            "Literal keys, and credentials in URLs, are refused.",
            'Put the key into the environment and name the variable: key_env = "PROVIDER_API_KEY".',
        )


_RECORD_FACTORY = logging.getLogRecordFactory()


def _redacting_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record = _RECORD_FACTORY(*args, **kwargs)
    if record.args:
        try:
            record.msg, record.args = record.getMessage(), None
        except (TypeError, ValueError):
            record.msg, record.args = f"{record.msg} {record.args}", None
    record.msg = redact(str(record.msg))
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
    return record


def guard_logs() -> None:
    """Every log record of this process passes the redactor when it is made, whatever handler writes it."""
    logging.setLogRecordFactory(_redacting_record)
