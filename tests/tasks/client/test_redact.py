"""No key gets out: not through text, logs, URLs, recipes, the cache or an endpoint that echoes it."""

import logging
from pathlib import Path

import pytest

from schemas.errors import UserError
from tasks.client.parse import snippet
from tasks.client.redact import (
    MASK,
    check_key_env,
    check_url,
    guard_logs,
    mark_env,
    redact,
    redact_data,
    redact_exact,
    refuse_secrets,
)  # fmt: skip
from tasks.client.request import CallFailure
from tasks.rollout.teacher.openai import OpenAI

MARKED = "zz-marked-9f8e7d6c5b4a-secret"


@pytest.fixture
def marked_key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GRISTMILL_TEST_KEY", MARKED)
    mark_env("GRISTMILL_TEST_KEY")
    return MARKED


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-abcdefghijklmnop1234", "hf_abcdefghijklmnopqrstuvwx", "ghp_abcdefghijklmnopqrstuvwxyz0123",
     "AKIAABCDEFGHIJKLMNOP", "AIza" + "b" * 35, "xoxb-1234567890-abcdef", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK"],
)  # fmt: skip
def test_shapes_of_keys(secret):
    assert secret not in redact(f"error for key {secret}: bad")
    assert redact(f"key {secret}!").endswith("!")


def test_headers_and_urls():
    assert "dGVzdA==abc" not in redact("Authorization: Bearer dGVzdA==abc")
    assert redact("http://me:hunter22@host/v1 down") == f"http://{MASK}@host/v1 down"
    assert "abc123" not in redact("GET https://h/v1?api_key=abc123&x=1")


@pytest.mark.parametrize(
    "text",
    [
        "task-based-learning-environment-setup",
        "a basic idea: api keys matter",
        "7 * 6",
        "user@host",
        "basic_arithmetic",
        "Basic understanding of trees",
        "the bearer of important news",
    ],
)
def test_ordinary_text_stays(text):
    assert redact(text) == text


def test_marked_values(marked_key):
    assert redact(f"x{marked_key}y") == f"x{MASK}y"
    assert redact_data({"a": [marked_key, 1], "api_key": "anything", "n": None}) == {
        "a": [MASK, 1], "api_key": MASK, "n": None,
    }  # fmt: skip
    # A model's text is masked only where it holds the real thing.
    assert redact_exact("use sk-live-aaaaaaaaaaaaaaaaaaaa") == "use sk-live-aaaaaaaaaaaaaaaaaaaa"


def test_short_values_are_placeholders(monkeypatch):
    monkeypatch.setenv("GRISTMILL_TEST_SHORT", "none")
    mark_env("GRISTMILL_TEST_SHORT")
    assert redact("none of it") == "none of it"


@pytest.mark.parametrize(
    "url", ["http://u:p@h/v1", "http://token@h/v1", "https://h/v1?api_key=abc", "ftp://h/v1", "h/v1"]
)
def test_urls_with_credentials_are_refused_without_repeating_them(url):
    with pytest.raises(UserError) as caught:
        check_url(url, "base_url")
    assert "u:p" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_literal_keys_are_refused_without_repeating_them():
    with pytest.raises(UserError) as caught:
        check_key_env("sk-proj-abcdefghijklmnop1234", "teacher")
    assert "abcdefgh" not in str(caught.value)
    for value in ({"a": {"api_key": "x"}}, {"a": ["sk-proj-abcdefghijklmnop1234"]}, {"u": "http://a:b@h/"}):
        with pytest.raises(UserError) as caught:
            refuse_secrets(value)
        assert "abcdefgh" not in str(caught.value)
    refuse_secrets({"key_env": "OPENAI_API_KEY", "base_url": "http://127.0.0.1:1/v1", "n": 3})


def test_a_teacher_refuses_them_too():
    with pytest.raises(UserError):
        OpenAI(base_url="http://u:p@h/v1", model="m")
    with pytest.raises(UserError):
        OpenAI(base_url="http://h/v1", model="m", key_env="sk-proj-abcdefghijklmnop1234")


def test_log_records_are_redacted_whoever_writes_them(marked_key, caplog):
    before = logging.getLogRecordFactory()
    guard_logs()
    try:
        logger = logging.getLogger("some.library")
        logger.warning("sent %s to %s", marked_key, "http://a:b@h")
        try:
            raise ValueError(marked_key)
        except ValueError:
            logger.exception("it broke")
    finally:
        logging.setLogRecordFactory(before)
    assert "sent" in caplog.text
    assert marked_key not in caplog.text


def test_a_key_never_reaches_the_disk(peer, teacher, ask, make_client, made, marked_key, tmp_path: Path):
    echoes = made.completion(f"your key is {marked_key}", system_fingerprint=marked_key)
    failing = made.reply({"error": {"message": f"Incorrect API key provided: {marked_key}"}}, 401)
    peer.script(made.reply(echoes), failing, made.reply(echoes))
    client = make_client()
    who = teacher(key_env="GRISTMILL_TEST_KEY", parallel=1)
    first, failure, third = client.complete_all(who, ask(3))
    assert peer.headers[0]["Authorization"] == f"Bearer {marked_key}"
    assert marked_key not in repr((first, failure, third, client.said, who.identity()))
    assert isinstance(failure, CallFailure)
    assert MASK in failure.detail
    client.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if marked_key.encode() in path.read_bytes()]


@pytest.mark.parametrize("field", ["X-Api-Key", "api-key", "Cookie", "client_secret", "Proxy-Authorization"])
def test_headers_that_hold_secrets_are_refused(field):
    with pytest.raises(UserError) as caught:
        refuse_secrets({"teacher": {"headers": {field: "MARKEDHDR1234"}}})
    assert "MARKEDHDR1234" not in str(caught.value)
    assert redact_data({field: "MARKEDHDR1234"}) == {field: MASK}


def test_fields_that_only_sound_alike_are_not():
    refuse_secrets({"key_env": "PROVIDER_KEY", "max_tokens": 24, "pad_token": "<|pad|>"})


def test_a_key_that_the_cut_runs_through_is_masked_first(marked_key):
    for start in range(250, 301):
        cut = snippet(("x" * start + " " + marked_key).encode(), 300)
        assert marked_key[:6] not in cut
