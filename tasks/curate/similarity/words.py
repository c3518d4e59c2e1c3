"""The words of a text as text, cut exactly as the kernels cut them; for evidence that a person reads."""

import re
import string

from tasks.curate.similarity.text import fold

# The same classes as in shingles.py: bytes E3 to E9 lead the characters U+3000 to U+9FFF.
_WORD = re.compile("[\u3000-\u9fff]|(?:[0-9A-Za-z_]|[\x80-\u2fff]|[\ua000-\U0010ffff])+|[!-/:-@\\[-^`{-~]")


def words(text: str) -> list[str]:
    """The words of `text`, in order, case folded beyond ASCII."""
    return _WORD.findall(fold(text).decode("utf-8", "surrogatepass"))


_SIGNS = str.maketrans(dict.fromkeys(string.punctuation.replace("_", ""), " "))


def without_signs(text: str) -> str:
    """The text with a space for every ASCII sign, for comparisons in which punctuation does not count."""
    return text.translate(_SIGNS)
