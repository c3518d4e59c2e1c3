"""Embeddings of trajectories, made once an item and kept in the lake."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.ids import content_id
from tasks.curate.similarity.minilm import DIMENSIONS, NAME, embed
from tasks.curate.spread import PARTITION
from tasks.curate.view import View, view_text

if TYPE_CHECKING:
    from warehouse.lake import Lake

Model = Literal["minilm", "static"]


class Embedded(NamedTuple):
    """Unit vectors in the order of the ids; `rows` are the new ones, for the lake."""

    vectors: NDArray[np.float32]
    rows: pa.Table | None


@functools.lru_cache(maxsize=16)
def embed_rows(texts: tuple[str, ...]) -> NDArray[np.float32]:
    """Unit vectors of texts that every batch asks for again, such as a benchmark's."""
    return embed(texts)


def embeddings(lake: "Lake", refs: Sequence[str], view: View, model: Model = "minilm") -> Embedded:
    """The embeddings of trajectories: read where the lake has them, made where it has not."""
    name, dimensions, make = NAME, DIMENSIONS, embed
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
