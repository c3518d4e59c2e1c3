"""Unescaping by blocks against `json` and against the way without them, wherever in a block an escape stands."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.normalize.columnar.blocks import has_blocks
from tasks.normalize.columnar.memory import PAD, address, kernel
from tasks.normalize.columnar.scan import _unescape_blocks, _unescape_each

PIECES = ["a", "é", "\\n", "\\t", "\\r", "\\b", "\\f", '\\"', "\\\\", "\\/", "\\u00e9", "\\ud83d\\ude00", "{", "u", "n"]
BAD = ["\\x", "\\u12g4", "\\ud800", "\\udc00", "\n", "\0", "\\\n", "\\\x1f"]


@kernel
def each(at: int, to: int) -> tuple[int, int]:
    return _unescape_each(at, to)


@kernel
def blocks(at: int, to: int) -> tuple[int, int]:
    return _unescape_blocks(at, to)


WAYS = [each, blocks] if has_blocks() else [each]


def unescaped(way: object, body: str) -> bytes | None:
    raw = np.frombuffer(bytearray(body.encode() + b'",' + bytes(PAD)), np.uint8)
    text = np.zeros(len(raw) + PAD, np.uint8)
    at, to = way(address(raw), address(text))  # type: ignore[operator]
    assert at < 0 or at == address(raw) + len(body.encode()) + 1
    return None if at < 0 else text[: to - address(text)].tobytes()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 130), st.lists(st.sampled_from(PIECES), max_size=90))
def test_text_of_any_escapes_at_any_place(lead: int, pieces: list[str]) -> None:
    body = "x" * lead + "".join(pieces)
    for way in WAYS:
        assert unescaped(way, body) == json.loads(f'"{body}"').encode()


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 130), st.lists(st.sampled_from(PIECES), max_size=20), st.sampled_from(BAD), st.integers(0, 70))
def test_a_bad_escape_or_control_character_is_seen_at_any_place(
    lead: int, pieces: list[str], bad: str, rest: int
) -> None:
    body = "x" * lead + "".join(pieces) + bad + "y" * rest
    for way in WAYS:
        assert unescaped(way, body) is None


def test_runs_of_backslashes_across_the_ends_of_blocks() -> None:
    for lead in range(56, 70):
        for count in range(0, 140, 2):
            body = "x" * lead + "\\" * count + "z\\\\\\n"
            for way in WAYS:
                assert unescaped(way, body) == json.loads(f'"{body}"').encode()
