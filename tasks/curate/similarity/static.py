"""A static embedding model distilled from all-MiniLM-L6-v2: tens of thousands of texts a second, as a first pass.

The recipe of model2vec: every word piece of the vocabulary goes through the model alone, the vectors are reduced
by principal components, and rare pieces weigh more (their rank in the vocabulary stands for their frequency). A
text is the mean of its pieces. Made once a machine, in about a minute, and kept beside other caches.
"""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingExtra
from schemas.folders import cache_folder
from tasks.curate.similarity import minilm

if TYPE_CHECKING:
    from model2vec import StaticModel

NAME = f"static-256/1/{minilm.NAME}"
DIMENSIONS = 256
_SIF = 1e-4
_lock = threading.Lock()
_loaded: "dict[str, StaticModel]" = {}


def embed_static(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors of the texts, [n, DIMENSIONS]. MissingExtra without the extra `embed`."""
    with _lock:
        if NAME not in _loaded:
            _loaded[NAME] = _load()
        return minilm.unit(np.asarray(_loaded[NAME].encode(list(texts), max_length=None), np.float32))


def model_folder() -> Path:
    """Where the distilled model is kept; it is made when it is not there."""
    folder = cache_folder() / NAME.replace("/", "-")
    if not (folder / "model.safetensors").exists():
        _distil(folder)
    return folder


def _load() -> "StaticModel":
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise MissingExtra("model2vec", "embed") from error
    return StaticModel.from_pretrained(str(model_folder()))


def _distil(folder: Path) -> None:
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise MissingExtra("model2vec", "embed") from error
    model = minilm.encoder()
    pieces = model.tokenizer.get_vocab()
    ordered = sorted(pieces, key=pieces.__getitem__)
    vectors = np.asarray(model.encode([piece.removeprefix("##") for piece in ordered], batch_size=512), np.float32)
    vectors -= vectors.mean(axis=0)
    # The signs of principal components are arbitrary: fixed, so that every machine makes the same model.
    _, _, axes = np.linalg.svd(vectors, full_matrices=False)
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    reduced = vectors @ axes[:DIMENSIONS].T
    share = 1 / np.arange(2, len(ordered) + 2)
    weights = _SIF / (_SIF + share / share.sum())
    scaled = np.round(reduced * weights[:, None], 5).astype(np.float32)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}")
    StaticModel(scaled, model.tokenizer.backend_tokenizer, normalize=True).save_pretrained(str(temporary))
    try:
        temporary.rename(folder)
    except OSError:
        # Another process was faster; its model is the same.
        if not (folder / "model.safetensors").exists():
            raise
