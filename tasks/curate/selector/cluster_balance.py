"""Keeps as many trajectories of every cluster of meaning, so that common topics do not crowd out rare ones."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from tasks.curate.base import Choice, Chosen, SetSelector, side_rows
from tasks.curate.standing import KeepPolicy, ranking, standings
from tasks.curate.view import View

if TYPE_CHECKING:
    from tasks.context import Context


class ClusterBalance(SetSelector, frozen=True, kw_only=True):
    """Keeps as many trajectories of every cluster of meaning, so that common topics do not crowd out rare ones.

    The reason is `crowded_cluster`; the evidence the cluster's number, size and quota.

    Embeddings are clustered by k-means from farthest points. What stays is shared out evenly; what a small cluster
    cannot fill goes to the larger ones.

    count: how many stay in all, or share: which share, rounded up; one of them is needed. clusters: how many
    clusters. view: what is compared: whole (prompt and actions), actions, answer, prompt.
    keep: which ones of a cluster stay: best_verdict, shortest, longest, newest, first (smallest id).
    embedder: minilm, or static, a fast model distilled from it.
    """

    count: Annotated[int, Meta(ge=1)] | None = None
    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    clusters: Annotated[int, Meta(ge=1)] = 20
    view: View = "whole"
    keep: KeepPolicy = "best_verdict"
    embedder: Literal["minilm", "static"] = "minilm"

    def __post_init__(self) -> None:
        if self.count is None and self.share is None:
            raise ValueError("count or share must say how many stay")

    @property
    def leans_on_verdicts(self) -> bool:
        """Only where the verdict says which ones stay."""
        return self.keep == "best_verdict"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """The best of each cluster."""
        import numpy as np

        from tasks.curate.facts import facts
        from tasks.curate.similarity.clusters import clusters
        from tasks.curate.similarity.embed import embeddings

        made = embeddings(ctx.lake, refs, self.view, self.embedder)
        # In the order of ids, so that clusters do not depend on the order of `refs`.
        by_id = np.array(sorted(range(len(refs)), key=refs.__getitem__), np.int64)
        cluster = np.zeros(len(refs), np.int64)
        cluster[by_id] = clusters(made.vectors[by_id], self.clusters)
        sizes = Counter(cluster.tolist())
        total = len(refs) if self.count is None else min(self.count, len(refs))
        if self.share is not None:
            total = min(total, -int(-len(refs) * self.share // 1))
        quota = shared_out(total, sizes)
        told = facts(ctx.lake, refs, "whole")
        order = ranking(self.keep, refs, told.values["chars"].tolist(), standings(ctx.lake, refs, self.keep))
        taken: Counter[int] = Counter()
        choices = [Choice(True)] * len(refs)
        for number in order.tolist():
            mine = int(cluster[number])
            taken[mine] += 1
            kept = taken[mine] <= quota[mine]
            evidence = {"cluster": mine, "size": sizes[mine], "quota": quota[mine]}
            choices[number] = Choice(kept, "ok" if kept else "crowded_cluster", evidence=evidence)
        return Chosen(choices, side_rows(signatures=told.rows, embeddings=made.rows))


def shared_out(total: int, sizes: Mapping[int, int]) -> dict[int, int]:
    """`total` shared out evenly over parts of these sizes, none above its size; odd ones go to the larger parts."""
    quotas: dict[int, int] = {}
    left = total
    # The smallest first: what it cannot fill is left for the others.
    for done, part in enumerate(sorted(sizes, key=lambda one: (sizes[one], -one))):
        quotas[part] = min(sizes[part], left // (len(sizes) - done))
        left -= quotas[part]
    return quotas
