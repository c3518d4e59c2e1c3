"""Short byte strings as kernels take them, searching for them, and white space.

Texts are given by the addresses where they begin and end. A table of words holds address and length of each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tasks.normalize.columnar.memory import PAD, Array, address, equal, get, inner, lowest, peek


class Words(NamedTuple):
    """Byte strings and the table that kernels take."""

    text: Array
    table: Array

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.table) // 2


def words_of(given: Sequence[str]) -> Words:
    """`given` in UTF-8."""
    raws = [one.encode() for one in given]
    text = np.frombuffer(bytearray(b"".join(raws) + bytes(PAD)), np.uint8)
    lengths = np.array([len(raw) for raw in raws], np.int64)
    starts = address(text) + np.cumsum(lengths) - lengths
    return Words(text, np.ascontiguousarray(np.stack([starts, lengths], axis=1).reshape(-1)))


@inner
def length(words: int, number: int) -> int:
    """The number of bytes of a word."""
    return get(words, 2 * number + 1)


@inner
def same(start: int, end: int, begin: int, stop: int) -> bool:
    """Whether two texts are the same."""
    if end - start != stop - begin:
        return False
    for at in range(end - start):
        if peek(start + at) != peek(begin + at):
            return False
    return True


@inner
def starts(start: int, end: int, words: int, number: int) -> bool:
    """Whether a text starts with a word."""
    begin, size = get(words, 2 * number), get(words, 2 * number + 1)
    return end - start >= size and same(start, start + size, begin, begin + size)


@inner
def word_at(start: int, end: int, words: int, count: int) -> int:
    """Which of the `count` words a text is, or -1."""
    for number in range(count):
        if length(words, number) == end - start and starts(start, end, words, number):
            return number
    return -1


@inner
def find(start: int, end: int, words: int, number: int) -> int:
    """Where a word (not empty) stands first in a text, or -1."""
    begin, size = get(words, 2 * number), get(words, 2 * number + 1)
    first = peek(begin)
    last = end - size
    while start <= last:
        mask = equal(start, first)
        while mask:
            here = start + lowest(mask)
            if here > last:
                return -1
            if same(here, here + size, begin, begin + size):
                return here
            mask &= mask - 1
        start += 32
    return -1


@inner
def rfind(start: int, end: int, words: int, number: int) -> int:
    """Where a word (not empty) stands last in a text, or -1."""
    begin, size = get(words, 2 * number), get(words, 2 * number + 1)
    first = peek(begin)
    at = end - size
    while at >= start:
        if peek(at) == first and same(at, at + size, begin, begin + size):
            return at
        at -= 1
    return -1


@inner
def before(start: int, end: int, begin: int, stop: int) -> bool:
    """Whether the first text sorts before the second; in UTF-8 that is the order of the code points."""
    while start < end and begin < stop:
        if peek(start) != peek(begin):
            return peek(start) < peek(begin)
        start += 1
        begin += 1
    return end - start < stop - begin


@inner
def _space(first: int, second: int, third: int) -> int:
    """The bytes of the white space character (as `str.strip` has it) that begins so, 0 when it is none."""
    if first <= 32:
        return 1 if first == 32 or 9 <= first <= 13 or first >= 28 else 0
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if first == 0xE2 and second == 0x80:
        return 3 if third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
    if first == 0xE2 and second == 0x81:
        return 3 if third == 0x9F else 0
    if first == 0xE1 and second == 0x9A:
        return 3 if third == 0x80 else 0
    if first == 0xE3 and second == 0x80:
        return 3 if third == 0x80 else 0
    return 0


@inner
def lstrip(start: int, end: int) -> int:
    """Where a text begins without the white space before it."""
    while start < end:
        size = _space(peek(start), peek(start + 1), peek(start + 2))
        if size == 0 or start + size > end:
            break
        start += size
    return start


@inner
def rstrip(start: int, end: int) -> int:
    """Where a text ends without the white space after it."""
    while end > start:
        if peek(end - 1) < 128:
            if _space(peek(end - 1), 0, 0) == 0:
                break
            end -= 1
        elif end - start >= 2 and _space(peek(end - 2), peek(end - 1), 0) == 2:
            end -= 2
        elif end - start >= 3 and _space(peek(end - 3), peek(end - 2), peek(end - 1)) == 3:
            end -= 3
        else:
            break
    return end
