"""Personal data are found as people write them; versions, hashes, timestamps, line numbers and ids are none."""

import pytest

from tasks.curate.personal import personal
from tasks.curate.risk import Kind, find

KINDS: tuple[Kind, ...] = ("email", "phone", "card", "iban", "ssn")
FOUND = [
    ("card", "I paid with {}.", "4111111111111111"),
    ("card", "{}, {}; ({})", "4111.1111.1111.1111"),
    ("card", "card {}", "4111_1111_1111_1111"),
    ("card", "{}", "4111\u00a01111\u00a01111\u00a01111"),
    ("card", '"n":{},', "5555555555554444"),
    ("card", "amex {}.", "3782 822463 10005"),
    ("phone", "Call {}.", "(415) 555-2671"),
    ("phone", "Call {}, or {}", "415-555-2671"),
    ("phone", "{}", "1-415-555-2671"),
    ("phone", "{}", "415.555.2671"),
    ("phone", "{}", "+49 30 1234 5678"),
    ("ssn", "my number is {}.", "219-09-9999"),
    ("ssn", "SSN: {}", "219 09 9999"),
    ("iban", "pay to {} now", "de89370400440532013000"),
    ("iban", "pay to {} BANK", "DE89 3704 0044 0532 0130 00"),
    ("iban", "{}", "GB82\u00a0WEST\u00a01234\u00a05698\u00a07654\u00a032"),
    ("email", "{}", "jürgen@müller.de"),
    ("email", "<{}>", "john＠corp.com"),
    ("email", "{}", "ｊｏｈｎ@ｃｏｒｐ．ｃｏｍ"),
    ("email", "{}", "ann@xn--mller-kva.xn--p1ai"),
    ("email", "?to={}&x=1", "john%40corp.com"),
    ("email", '"{}"', "john\\u0040corp.com"),
    ("email", "smtp://{}:pw123456@host", "ann@company.org"),
]
LOGS = """\
    numpy==1.26.4 v2024.01.31 1.2.3.4 10.0.0.127:8080 python3.11.9-slim 123.456.7890 2.0.0-rc.1 node@20.1.0 icon@2x.png
    4b825dc642cb6eb9a060e54bf8d69288fbee4904 9f86d081884c7d659a2feaa0c55ad015 de89370400440532013001 at12 in 16 se50
    sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 e3b0c442-98fc-4c14-9afb-f4c8996fb924
    1700000000000 1700000000000000 1700000000000000000 2024-01-31T12:00:00.123456+00:00 20240131120000 [1706702400]
    src/a.py:415:12: E501  415-421  123-45-  lines 200-300, 219-09: 219 09 9999  219.09.9999 12-345-6789 000-12-3456
    id 1234567890123456 0000000000000000 0x4111111111111111 4111111111111111.log 0.4111111111111111 /4111111111111111/
    a4111111111111111 4111111111111111b 4111 1111 1111 1111 1111 1111 call_4111111111111111 x-4111111111111111
    tests/415-555-2671/x 415-555-26711 415-555-0123 115-555-2671 1-800 +1 -2 +3.5 @pytest.fixture a @ b.T x@y
    me@example.com git@host.org ann@sub.example.org https://bob:pw1@company.org
"""


@pytest.mark.parametrize(("kind", "around", "value"), FOUND)
def test_personal_data_are_found_as_they_are_written(kind: str, around: str, value: str) -> None:
    text = around.replace("{}", value)
    found = find(text, KINDS)
    assert {(one.kind, text[one.start : one.end]) for one in found} == {(kind, value)}
    assert len(found) == around.count("{}")


@pytest.mark.parametrize("kind", KINDS)
def test_what_logs_of_agents_hold_is_none(kind: str) -> None:
    assert [LOGS[one.start : one.end] for one in personal(LOGS, kind)] == []


def test_the_password_of_a_mail_address_in_a_url() -> None:
    pytest.importorskip("detect_secrets")
    text = "smtp://ann@company.org:pw123456@host"
    assert [text[one.start : one.end] for one in find(text, ("email", "secret"))] == ["ann@company.org", "pw123456"]


@pytest.mark.parametrize(
    "piece", ["a.", "a@", "a-.", "a@a.", "+1 ", "1 ", "12-", "4111 ", "DE89 ", "de89AAAA", "(415) ", "219-09-", "ssn "]
)
def test_long_text_of_what_almost_is_personal(piece: str) -> None:
    """A search that takes the square of the length would take minutes here."""
    text = piece * (1_000_000 // len(piece))
    assert isinstance(find(text, KINDS), list)
    assert isinstance(find("a@" + text, KINDS), list)
