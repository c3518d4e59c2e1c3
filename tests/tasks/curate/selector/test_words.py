"""Selectors that read: data_risk, language, avoidance."""

import pytest

from schemas.vocabulary import VerdictKind
from tasks.curate.risk import Finding, find, redacted
from tasks.curate.selector.avoidance import Avoidance
from tasks.curate.selector.data_risk import DataRisk
from tasks.curate.selector.language import Language
from tasks.curate.selector.risky_style import RiskyStyle

KEY = "AKIA" + "IOSFODNN7EXAMPLQ"
ALL = ("secret", "email", "phone", "card", "iban")


def reasons(outcomes, ids):
    return [outcomes[ref].reason for ref in ids]


def test_secrets_and_personal_data_are_found_by_form_and_check_sum():
    pytest.importorskip("detect_secrets")
    text = (
        f"key {KEY} mail ann.other@company.org or me@example.com, git@host.org; call +49 30 1234 5678, "
        "card 4111 1111 1111 1111 not 4111 1111 1111 1112, iban "
        "DE89 3704 0044 0532 0130 00 not DE88 3704 0044 0532 0130 00"
    )
    found = find(text, ALL)
    assert [(one.kind, text[one.start : one.end]) for one in found] == [
        ("secret", KEY),
        ("email", "ann.other@company.org"),
        ("phone", "+49 30 1234 5678"),
        ("card", "4111 1111 1111 1111"),
        ("iban", "DE89 3704 0044 0532 0130 00"),
    ]
    assert redacted(text, found).startswith("key <secret> mail <email> or me@example.com")
    assert find("version 1.2.3, 2024-01-31, id 12345678901234567890123, x = a @ b.T, 0000 0000 0000 0000", ALL) == []


def test_a_secret_is_found_whole_and_only_where_it_stands():
    pytest.importorskip("detect_secrets")
    token = "ghp_" + "Ab1" * 12
    body = "-----BEGIN PRIVATE KEY-----\r\nMIIE\r\nAAAA==\r\n-----END PRIVATE KEY-----"
    text = f"git clone https://bob:pw1@company.org and {token} pw1 {body}"
    found = find(text, ALL)
    assert [text[one.start : one.end] for one in found] == ["pw1", token, body]
    assert redacted(text, found) == "git clone https://bob:<secret>@company.org and <secret> pw1 <secret>"
    assert find(redacted(text, found), ALL) == []


def test_overlapping_findings_leave_no_tail():
    one = Finding("secret", "a", 0, 5, "h")
    assert redacted("abcdefgh", [one, one._replace(start=3, end=7)]) == "<secret>h"


def test_risk_is_dropped_or_tagged_and_never_written_down(bench, make):
    pytest.importorskip("detect_secrets")
    ids = bench.add(
        make("q", ("run", "{}", f"export KEY={KEY}"), "done"),
        make("q", "write to ann.other@company.org"),
        make("q", "fine"),
    )
    outcomes = bench.select(DataRisk(), ids)
    assert reasons(outcomes, ids) == ["secret", "tagged", "ok"]
    assert KEY not in str(outcomes[ids[0]].evidence)
    assert outcomes[ids[0]].evidence["step"] == 1
    assert outcomes[ids[1]].evidence["found"] == {"email: email": 1}
    assert reasons(bench.select(DataRisk(drop=("email",), tag=()), ids), ids) == ["ok", "email", "ok"]


def test_language(bench, make):
    pytest.importorskip("py3langid")
    ids = bench.add(
        make("Write a poem about the sea and the wind", "The sea is wide and the wind is strong"),
        make("Schreibe ein Gedicht über das Meer und den Wind", "Das Meer ist weit und der Wind ist stark"),
        make("", "猫は暖かい屋根の上で眠り、雨は遠く丘の向こうに降っている。それでも目を覚まさない。"),
        make("ok", "ja"),
    )
    assert reasons(bench.select(Language(), ids), ids) == ["ok", "language", "language", "short"]
    assert bench.kept(Language(keep=("de", "ja")), ids) == ids[1:]


def test_avoidance(bench, make):
    ids = bench.add(
        make("q", "I cannot help with that."),
        make("q", "def f(x):\n    # TODO\n    raise NotImplementedError"),
        make("q", "See https://made.up/page for details."),
        make("q", ("search", "{}", "found https://real.org/page"), "See https://real.org/page."),
        make("q", "The list cannot help but grow."),
    )
    assert reasons(bench.select(Avoidance(), ids), ids) == [
        "refusal",
        "placeholder",
        "fabricated_reference",
        "ok",
        "ok",
    ]
    bench.judge(ids[1], VerdictKind.PASS, 1.0)
    assert reasons(bench.select(Avoidance(), ids[1:2]), ids[1:2]) == ["ok"]


def test_styles_are_tagged_or_dropped(bench, make):
    code = 'x = f()\nprint(f"debug {x}")\nprint(vars(x))\nlogger.debug(x)'
    ids = bench.add(
        make("I feel so lonely since the move.", "I understand how hard that is, and I'm here for you."),
        make("Mend it.", f"```python\n{code}\n```"),
        make("Mend it.", ("run", '{"code":"print(locals())\\nconsole.log(x)"}', "ok"), "done"),
        make("How sad is this story?", 'print("The answer is", 3)\nprint(total)'),
        make("I am sad.", "Why?"),
    )
    outcomes = bench.select(RiskyStyle(), ids)
    assert reasons(outcomes, ids) == ["tagged", "tagged", "tagged", "ok", "ok"]
    assert outcomes[ids[0]].evidence == {"found": {"emotional_dialogue": 3}}
    assert outcomes[ids[1]].evidence == {"found": {"debug_print": 3}}
    strict = RiskyStyle(drop=("debug_print",), tag=(), least=1)
    assert reasons(bench.select(strict, ids), ids) == ["ok", "debug_print", "debug_print", "ok", "ok"]
