"""A body is an answer or a cause; whatever is thrown at it, never a crash."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.client.parse import degenerated, parse_completion, snippet
from tasks.client.teacher import AttemptFailed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "text", "tool_calls", "function", "arguments"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_any_bytes(body):
    with pytest.raises(AttemptFailed):
        parse_completion(body)


@given(JSON)
def test_any_json(value):
    body = msgspec.json.encode({"choices": [value]} if isinstance(value, dict) else value)
    try:
        parse_completion(body)
    except AttemptFailed as failed:
        assert failed.cause


@given(JSON)
def test_any_content(content):
    try:
        reply = parse_completion(msgspec.json.encode({"choices": [{"message": {"content": content}}]}))
        assert isinstance(reply.text, str)
    except AttemptFailed as failed:
        assert failed.cause


def test_missing_usage_counts_as_the_worst_case():
    body = b'{"choices": [{"message": {"content": "four words are here"}}]}'
    assert parse_completion(body, max_tokens=50).completion_tokens == 50


def test_reasoning_under_both_names():
    for name in ("reasoning", "reasoning_content"):
        body = msgspec.json.encode({"choices": [{"message": {"content": "a", name: "because"}}]})
        assert parse_completion(body).reasoning == "because"


def test_blanks_in_the_middle_are_no_degeneration():
    assert not degenerated("a" + " " * 100 + "b", "length")
    assert not degenerated("a" + "\n" * 100, "stop")
    assert degenerated("a" + "\n" * 100, "length")


def test_snippets_are_short_and_readable():
    assert snippet(b"\xff\x00  line one\n line two" + b"x" * 5000).startswith("�\x00 line one line two")
    assert len(snippet(b"y" * 10_000)) == 300
