"""One raw record to a JSON value, or the exact reason why not.

The fast way is msgspec, which already refuses NaN, bad UTF-8 and cut text. What it lets pass (duplicate keys,
integers beyond 64 bits) is found by counting: the text's `":` pairs against the keys of the decoded value.
Whatever looks odd takes the slow way through `json`, which names the reason and mends lone surrogates.
Nothing is repaired otherwise.
"""

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from schemas.errors import RecordError

Buffer = bytes | bytearray | memoryview
MAX_DEPTH = 128
_MAX_INT, _MIN_INT = 2**64 - 1, -(2**63)
_SURROGATE = re.compile("[\ud800-\udfff]")
_QUOTE, _COLON, _BACKSLASH, _SPACE = 34, 58, 92, 32
_decode = msgspec.json.Decoder().decode


class Record(msgspec.Struct, frozen=True, gc=False):
    """A decoded record and the places at which an unpaired surrogate was replaced ("path: \\udXXX").

    `lost` names the lines of a whole file that could not be read ("line 7: cut_line").
    """

    value: Any
    replaced: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def decode(raw: Buffer, pairs: int | None = None) -> Record:
    """The JSON value of `raw` (UTF-8), whatever its type.

    pairs: `key_marks(raw)` where the caller already has it, -1 for "cannot tell".
    Raises RecordError with a reason code: invalid_utf8, bom, nul_byte, cut_line, malformed_json, not_a_number,
    number_out_of_range, duplicate_key, too_deep, empty.
    """
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError):
        return _slow(bytes(raw))
    keys = _survey(value)
    if keys and keys != (key_marks(raw) if pairs is None else pairs):
        return _slow(bytes(raw))
    return Record(value)


def decode_flat(raw: Buffer, keys: Sequence[int]) -> list[dict[str, Any]] | None:
    """The objects of a list: as many as `keys`, each of so many fields, without lists and objects in them.

    None for anything that `decode` must judge.
    """
    try:
        values = _decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeError):
        return None
    if type(values) is not list or any(type(value) is not dict for value in values):
        return None
    if list(map(len, values)) != keys:
        return None
    for one in chain.from_iterable(map(dict.values, values)):
        if type(one) is int and not _MIN_INT <= one <= _MAX_INT:
            return None
    return values


def decode_file(raw: bytes) -> Record:
    """A file that is one record: a JSON value, or the values of its lines in a list.

    Lines that can't be read (the last one of a session that still runs) are named in `lost`; RecordError when
    none can be.
    """
    try:
        return decode(raw)
    except RecordError as error:
        if error.reason not in ("malformed_json", "cut_line") or b"\n" not in raw.strip():
            raise
    values: list[Any] = []
    replaced: list[str] = []
    lost: list[str] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = decode(line)
        except RecordError as error:
            lost.append(f"line {number}: {error.reason}")
            continue
        values.append(record.value)
        replaced.extend(f"line {number} {place}" for place in record.replaced)
    if not values:
        raise RecordError("malformed_json", f"neither a JSON value nor lines of them; {lost[0] if lost else 'empty'}")
    return Record(values, tuple(replaced), tuple(lost))


def key_marks(raw: Buffer) -> int:
    """How often a string's closing quote is followed at once by a colon; -1 where white space stands between."""
    return int(key_marks_of_lines(raw, np.zeros(1, dtype=np.int64))[0])


def key_marks_of_lines(chunk: Buffer, starts: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """`key_marks` of every record of `chunk`; `starts` are their ascending byte offsets (int64).

    An opening quote before a colon (a text that begins with one) counts too: the sum is then too high, never
    too low, so that equality with the number of decoded keys proves that no key stands twice.
    """
    data = np.frombuffer(chunk, dtype=np.uint8)
    if not len(data):
        return np.zeros(len(starts), dtype=np.int64)
    quotes = np.flatnonzero(data[:-1] == _QUOTE)
    after = data[quotes + 1]
    marks = _unescaped(data, quotes[after == _COLON])
    counts = np.diff(np.append(np.searchsorted(marks, starts), len(marks)))
    spaced = quotes[after <= _SPACE]
    if len(spaced):
        spaced = _unescaped(data, spaced)
        ends = spaced + 1
        open_ends = np.arange(len(ends))
        while len(open_ends):
            open_ends = open_ends[ends[open_ends] < len(data) - 1]
            open_ends = open_ends[data[ends[open_ends]] <= _SPACE]
            ends[open_ends] += 1
        loose = spaced[data[np.minimum(ends, len(data) - 1)] == _COLON]
        counts[np.searchsorted(starts, loose, side="right") - 1] = -1
    return counts


def _unescaped(data: "np.ndarray[Any, Any]", at: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The positions of `at` with an even number of backslashes before them."""
    odd = np.zeros(len(at), dtype=bool)
    alive = np.flatnonzero(at > 0)
    back = 1
    while len(alive):
        alive = alive[data[at[alive] - back] == _BACKSLASH]
        odd[alive] ^= True
        back += 1
        alive = alive[at[alive] >= back]
    return at[~odd]


def _survey(value: Any) -> int:
    """The number of object keys in a decoded value; refuses integers beyond 64 bits and nesting beyond MAX_DEPTH."""
    keys, depth = 0, 0
    level: list[Any] = [value]
    # Level by level, so that the loops run inside the interpreter: this is on every record's way.
    while level:
        if depth > MAX_DEPTH:
            raise RecordError("too_deep", f"nested deeper than {MAX_DEPTH}")
        objects = [node for node in level if type(node) is dict]
        lists = [node for node in level if type(node) is list]
        if len(objects) + len(lists) < len(level):
            for node in level:
                if type(node) is int and not _MIN_INT <= node <= _MAX_INT:
                    raise RecordError("number_out_of_range", "an integer beyond 64 bits")
        keys += sum(map(len, objects))
        level = [node for node in chain.from_iterable(map(dict.values, objects)) if type(node) is not str]
        level.extend([node for node in chain.from_iterable(lists) if type(node) is not str])
        depth += 1
    return keys


def _no_constant(name: str) -> Any:
    raise RecordError("not_a_number", f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RecordError("duplicate_key", f"the key {key[:80]!r} stands twice in one object")
            seen.add(key)
    return made


def _slow(raw: bytes) -> Record:
    text = _utf8(raw)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _malformed(text, error) from None
    except RecursionError:
        raise RecordError("too_deep", "nested deeper than the decoder's limit") from None
    except ValueError as error:  # an integer of thousands of digits
        raise RecordError("number_out_of_range", str(error)[:200]) from None
    _survey(value)
    if _infinite(value):
        raise RecordError("number_out_of_range", "a number beyond a double's range")
    replaced: list[str] = []
    return Record(_mend(value, "", replaced), tuple(replaced))


def _utf8(raw: bytes) -> str:
    if raw.startswith(b"\xef\xbb\xbf"):
        raise RecordError("bom", "a byte order mark inside the file, at byte 0 of the record")
    nul = raw.find(b"\0")
    if nul >= 0:
        raise RecordError("nul_byte", f"a NUL byte at byte {nul} of the record")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise RecordError("invalid_utf8", f"{error.reason} at byte {error.start} of the record") from None


def _malformed(text: str, error: json.JSONDecodeError) -> RecordError:
    if not text.strip():
        return RecordError("empty", "only white space")
    tail = text[error.pos :]
    cut = not tail.strip() or error.msg.startswith("Unterminated string") or "true false null".find(tail.strip()) >= 0
    return RecordError("cut_line" if cut else "malformed_json", f"{error.msg} at character {error.pos} of the record")


def _infinite(value: Any) -> bool:
    level = [value]
    while level:
        node = level.pop()
        if isinstance(node, dict):
            level.extend(node.values())
        elif isinstance(node, list):
            level.extend(node)
        elif isinstance(node, float) and node in (float("inf"), float("-inf")):
            return True
    return False


def mend_text(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` with split surrogate pairs joined and unpaired ones as U+FFFD, and the replaced ones as escapes."""
    if not _SURROGATE.search(text):
        return text, ()
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    lone = tuple(f"\\u{ord(char):04x}" for char in _SURROGATE.findall(joined))
    return _SURROGATE.sub("\ufffd", joined), lone


def _mend(value: Any, path: str, replaced: list[str]) -> Any:
    if isinstance(value, str):
        text, lone = mend_text(value)
        replaced.extend(f"{path or '$'}: {code}" for code in lone)
        return text
    if isinstance(value, list):
        return [_mend(item, f"{path}[{index}]", replaced) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            mend_text(key)[0]: _mend(item, f"{path}.{key}" if path else key, replaced) for key, item in value.items()
        }
    return value
