"""Words and shingles of packed texts, as 64-bit hashes, in one pass over the bytes.

A word is a run of letters, digits and underscores; every other visible ASCII sign is a word of its own, so that
`a + b` and `a - b` differ; a character of a script written without spaces (kana, Han) is a word of its
own, so that such texts have shingles at all. ASCII case is folded here.

Three hashes of the whole text come with it: `exact` over all words, `template` over the words with every word
that holds a digit replaced by one sign, `values` over those words only. Two texts of equal template and
different values are instances of one template, not edits of each other.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.curate.similarity.jit import jit
from tasks.curate.similarity.text import Packed, pack

_SPACE, _SIGN, _LETTER, _WIDE = 0, 1, 2, 3
_FNV = np.uint64(0x100000001B3)
_SEED = np.uint64(0xCBF29CE484222325)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S29, _S32 = np.uint64(29), np.uint64(32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


_S8 = np.uint64(8)


def _tables() -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """The class of each byte; and what each letter byte adds to a hash: itself in lower case, 256 for a digit."""
    kinds = np.full(256, _SIGN, np.uint8)
    kinds[:33] = _SPACE
    kinds[127] = _SPACE
    kinds[128:] = _LETTER
    # UTF-8 lead bytes of kana and Han.
    kinds[0xE3:0xEA] = _WIDE
    for byte in range(128):
        if chr(byte).isalnum() or chr(byte) == "_":
            kinds[byte] = _LETTER
    letters = np.zeros(256, np.uint64)
    for byte in np.flatnonzero(kinds == _LETTER).tolist():
        low = byte + 32 if 65 <= byte <= 90 else byte
        letters[byte] = low + 256 if 48 <= byte <= 57 else low
    return kinds, letters


_KIND, _LETTERS = _tables()


class Profile(NamedTuple):
    """What one pass tells of each text, arrays over the texts."""

    n_words: NDArray[np.int64]
    n_shingles: NDArray[np.int64]
    exact: NDArray[np.uint64]
    template: NDArray[np.uint64]
    values: NDArray[np.uint64]


@jit
def mix(h: np.uint64) -> np.uint64:
    """A bijective 64-bit mix (the finaliser of splitmix64)."""
    h = (h ^ (h >> _S32)) * _MIX1
    h = (h ^ (h >> _S29)) * _MIX2
    return h ^ (h >> _S32)


@jit
def words_of(buffer: NDArray[np.uint8], start: int, end: int, words: NDArray[np.uint64]) -> int:
    """Writes the mixed hash of each word of buffer[start:end] to `words` and returns how many.

    The lowest bit tells whether the word holds a digit. `words` must have room for end - start hashes.
    """
    # Unsigned counters spare numba its test for negative indexes in the innermost loop (a quarter of the time).
    n, i, stop = _ZERO, np.uint64(start), np.uint64(end)
    h, added = _SEED, _ZERO
    while i < stop:
        byte = buffer[i]
        letter = _LETTERS[byte]
        i += _ONE
        if letter != _ZERO:
            h = (h ^ letter) * _FNV
            added |= letter
            continue
        if added != _ZERO:
            words[n] = (mix(h) & ~_ONE) | ((added >> _S8) & _ONE)
            n += _ONE
            h, added = _SEED, _ZERO
        kind = _KIND[byte]
        if kind == _SPACE:
            continue
        sign = (_SEED ^ np.uint64(byte)) * _FNV
        if kind == _WIDE:
            after = min(i + np.uint64(2), stop)
            while i < after:
                sign = (sign ^ np.uint64(buffer[i])) * _FNV
                i += _ONE
        words[n] = mix(sign) & ~_ONE
        n += _ONE
    if added != _ZERO:
        words[n] = (mix(h) & ~_ONE) | ((added >> _S8) & _ONE)
        n += _ONE
    return int(n)


@jit
def whole_hashes(words: NDArray[np.uint64], n: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """The hashes (exact, template, values) of a text of `n` words; `values` is 0 when no word holds a digit."""
    exact = _SEED
    template = _SEED
    values = np.uint64(0)
    for i in range(n):
        word = words[i]
        exact = exact * _BASE + word
        if word & _ONE:
            template = template * _BASE + _MIX1
            values = (values + word) * _BASE
        else:
            template = template * _BASE + word
    return mix(exact), mix(template), values


@jit
def shingles_of(words: NDArray[np.uint64], n: int, window: int, out: NDArray[np.uint64]) -> int:
    """Writes the hashes of all windows of `window` words to `out` (with repeats) and returns how many.

    A text shorter than the window has none.
    """
    if n < window:
        return 0
    top = _ONE
    for _ in range(window):
        top *= _BASE
    h = np.uint64(0)
    for i in range(window):
        h = h * _BASE + words[i]
    out[0] = mix(h)
    for i in range(window, n):
        h = h * _BASE + words[i] - words[i - window] * top
        out[i - window + 1] = mix(h)
    return n - window + 1


@jit
def room_for(count: int) -> int:
    """The size of an open-addressing table for `count` values: a power of two, at most half full."""
    size = 64
    while size < 2 * count:
        size *= 2
    return size


@jit
def distinct(values: NDArray[np.uint64], n: int, table: NDArray[np.uint64]) -> int:
    """Moves the distinct ones of the first `n` values to the front and returns how many.

    `table` is scratch; its length is a power of two above n. The value 0 counts as 1.
    """
    table[:] = 0
    mask = np.uint64(len(table) - 1)
    kept = 0
    for i in range(n):
        value = values[i] if values[i] != 0 else _ONE
        slot = value & mask
        while table[slot] != 0 and table[slot] != value:
            slot = (slot + _ONE) & mask
        if table[slot] == 0:
            table[slot] = value
            values[kept] = value
            kept += 1
    return kept


@jit
def longest(offsets: NDArray[np.int64]) -> int:
    """The length in bytes of the longest text."""
    most = 0
    for i in range(len(offsets) - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


@jit
def _profile(
    buffer: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    window: int,
    counts: NDArray[np.int64],
    hashes: NDArray[np.uint64],
) -> None:
    words = np.empty(longest(offsets) + 1, np.uint64)
    for i in range(len(offsets) - 1):
        n = words_of(buffer, offsets[i], offsets[i + 1], words)
        counts[0, i] = n
        counts[1, i] = max(0, n - window + 1)
        hashes[0, i], hashes[1, i], hashes[2, i] = whole_hashes(words, n)


def profile(texts: Packed, window: int) -> Profile:
    """Word and shingle counts (repeats included) and whole-text hashes of all texts."""
    counts = np.zeros((2, texts.n), np.int64)
    hashes = np.zeros((3, texts.n), np.uint64)
    _profile(texts.buffer, texts.offsets, window, counts, hashes)
    return Profile(counts[0], counts[1], hashes[0], hashes[1], hashes[2])


class ShingleSets(NamedTuple):
    """The distinct shingles of texts: those of text i are values[offsets[i] : offsets[i + 1]], in no order."""

    values: NDArray[np.uint64]
    offsets: NDArray[np.int64]


@jit
def _collect(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    window: int,
    places: NDArray[np.int64],
    out: NDArray[np.uint64],
    lengths: NDArray[np.int64],
) -> None:
    room = 1
    for i in range(len(starts)):
        room = max(room, ends[i] - starts[i])
    words = np.empty(room, np.uint64)
    scratch = np.empty(room, np.uint64)
    table = np.zeros(room_for(room), np.uint64)
    for i in range(len(starts)):
        n = words_of(buffer, starts[i], ends[i], words)
        count = shingles_of(words, n, window, scratch)
        count = distinct(scratch, count, table[: room_for(count)])
        out[places[i] : places[i] + count] = scratch[:count]
        lengths[i] = count


def shingle_sets(texts: Packed, which: NDArray[np.int64], n_shingles: NDArray[np.int64], window: int) -> ShingleSets:
    """The distinct shingles of the texts with the numbers `which`; `n_shingles` bounds them (see `profile`)."""
    room = np.zeros(len(which) + 1, np.int64)
    np.cumsum(n_shingles, out=room[1:])
    out = np.empty(int(room[-1]), np.uint64)
    lengths = np.zeros(len(which), np.int64)
    _collect(texts.buffer, texts.offsets[which], texts.offsets[which + 1], window, room, out, lengths)
    return ShingleSets(*_squeeze(out, room, lengths))


@jit
def _pick(
    shingles: NDArray[np.uint64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    places: NDArray[np.int64],
    out: NDArray[np.uint64],
    lengths: NDArray[np.int64],
) -> None:
    most = 0
    for count in counts:
        most = max(most, count)
    table = np.zeros(room_for(most), np.uint64)
    for i in range(len(starts)):
        one = out[places[i] : places[i + 1]]
        one[:] = shingles[starts[i] : starts[i] + counts[i]]
        lengths[i] = distinct(one, counts[i], table[: room_for(counts[i])])


def picked_sets(shingles: NDArray[np.uint64], which: NDArray[np.int64], n_shingles: NDArray[np.int64]) -> ShingleSets:
    """The distinct shingles of some texts out of all texts' shingles (see `sketch`); `n_shingles` counts all texts'."""
    starts = np.cumsum(n_shingles) - n_shingles
    places = np.zeros(len(which) + 1, np.int64)
    np.cumsum(n_shingles[which], out=places[1:])
    out, lengths = np.empty(int(places[-1]), np.uint64), np.zeros(len(which), np.int64)
    _pick(shingles, starts[which], n_shingles[which], places, out, lengths)
    return ShingleSets(*_squeeze(out, places, lengths))


@jit
def _squeeze(
    values: NDArray[np.uint64], room: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    for i in range(len(lengths)):
        offsets[i + 1] = offsets[i] + lengths[i]
        for j in range(lengths[i]):
            values[offsets[i] + j] = values[room[i] + j]
    return values[: offsets[-1]], offsets


def shingle_sets_of(texts: Sequence[str], window: int) -> ShingleSets:
    """The distinct shingles of all the texts."""
    packed = pack(texts)
    # A text of b bytes has fewer than b shingles: no pass of its own to count them.
    return shingle_sets(packed, np.arange(packed.n), np.diff(packed.offsets), window)


def joined(parts: Iterable[ShingleSets]) -> ShingleSets:
    """Several sets of texts as one, in their order."""
    values, lengths = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for part in parts:
        values.append(part.values.copy())
        lengths.append(np.diff(part.offsets))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
    return ShingleSets(np.concatenate(values), offsets)
