"""Texts as the kernels take them: one UTF-8 buffer with offsets, lightly normalised.

What counts as a word is decided on bytes in `shingles.py`; here only what bytes cannot do: composed and
decomposed letters are one (NFKC), case is folded beyond ASCII, Unicode spaces are spaces.
"""

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Packed(NamedTuple):
    """`n` texts in one buffer: text i is buffer[offsets[i] : offsets[i + 1]]."""

    buffer: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many texts."""
        return len(self.offsets) - 1


def fold(text: str) -> bytes:
    """UTF-8 of `text` for comparison. ASCII text passes untouched: the kernels fold its case themselves."""
    if text.isascii():
        return text.encode()
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).encode("utf-8", "surrogatepass")


def pack(texts: Iterable[str]) -> Packed:
    """The texts in one buffer."""
    parts = [fold(text) for text in texts]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=offsets[1:])
    return Packed(np.frombuffer(b"".join(parts), np.uint8), offsets)
