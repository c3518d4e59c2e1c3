"""Every way in which a record can be bad has its own reason; nothing else is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import RecordError
from tasks.normalize.strict import decode, key_marks, mend_text

BAD = [
    (b'{"a": NaN}', "not_a_number"),
    (b'{"a": -Infinity}', "not_a_number"),
    (b'{"a": 18446744073709551616}', "number_out_of_range"),
    (b'{"a": -9223372036854775809}', "number_out_of_range"),
    (b'{"a": 1e999}', "number_out_of_range"),
    (b'{"a": ' + b"9" * 5000 + b"}", "number_out_of_range"),
    (b"[" * 10_000 + b"]" * 10_000, "too_deep"),
    (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "too_deep"),
    (b"[" * 300 + b"]" * 300, "too_deep"),
    (b'{"a": "\xff"}', "invalid_utf8"),
    (b'{"a": "\xed\xa0\xbc"}', "invalid_utf8"),
    (b'{"a": "\x00"}', "nul_byte"),
    (b'\xef\xbb\xbf{"a": 1}', "bom"),
    (b'{"a": "x', "cut_line"),
    (b'{"a": tru', "cut_line"),
    (b'{"a": 1', "cut_line"),
    (b'{"a"', "cut_line"),
    (b'{"a": 1, "a": 2}', "duplicate_key"),
    (b'{"a": {"b" : 1, "b" : 2}}', "duplicate_key"),
    (b'{"a": [{"\\u0062": 1, "b": 2}]}', "duplicate_key"),
    (b'{"a": 1} x', "malformed_json"),
    (b"{'a': 1}", "malformed_json"),
    (b'{"a": "x\ty"}', "malformed_json"),
    (b"  ", "empty"),
]


@pytest.mark.parametrize(("raw", "reason"), BAD)
def test_bad_record_has_its_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        decode(raw)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 18446744073709551615, "b": -9223372036854775808}',
        b'{"a": "\\u0000"}',
        b'{"a" : 1, "b"\t:\n":"}\r',
        b'{"a\\\\": 1, "b": "\\":", "c": ":", "d\\"": {"a": ": "}}',
        b"[1, 2.5, null, true]",
    ],
)
def test_odd_but_good_record(raw: bytes) -> None:
    assert decode(raw).value == json.loads(raw)


def test_surrogates_are_joined_or_replaced_and_recorded() -> None:
    found = decode(b'{"a": ["\\ud83c\\udf78 \\udf78"], "b": {"c": "\\ud800"}}')
    assert found.value == {"a": ["🍸 \ufffd"], "b": {"c": "\ufffd"}}
    assert found.replaced == ("a[0]: \\udf78", "b.c: \\ud800")
    assert mend_text("\ud83c" + "\udf78") == ("🍸", ())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('a":\\ \n{}[],é'), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.sampled_from('ab":\\ '), max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_good_json_reads_as_json_reads_it(value: object, indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert decode(raw).value == value


@given(
    st.lists(
        st.tuples(st.text(st.sampled_from('ab":\\ '), max_size=2), st.text('a":\\', max_size=3)), min_size=1, max_size=6
    ),
    st.sampled_from([":", " :", ": ", "\t:\n"]),
)
def test_duplicate_keys_are_found_however_they_are_written(pairs: list[tuple[str, str]], colon: str) -> None:
    raw = ("{" + ",".join(json.dumps(key) + colon + json.dumps(value) for key, value in pairs) + "}").encode()
    unique = len({key for key, _ in pairs}) == len(pairs)
    try:
        assert decode(raw).value == dict(pairs) and unique
    except RecordError as error:
        assert error.reason == "duplicate_key" and not unique


def test_key_marks_never_count_too_few() -> None:
    assert key_marks(b'{"a":1,"b\\\\":":x"}') == 3
    assert key_marks(b'{"a" :1}') == -1
