"""Splits a set into train and held-out so that nothing leaks from one to the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from msgspec import Meta

from schemas.ids import content_id, seed_for
from tasks.curate.base import Choice, Chosen, SetSelector, side_rows
from tasks.curate.standing import standings

if TYPE_CHECKING:
    import pyarrow as pa

    from tasks.context import Context
    from warehouse.lake import Lake

_SIDES = ("", "train", "held_out")


class Split(SetSelector, frozen=True, kw_only=True):
    """Splits a set into train and held-out so that nothing leaks from one to the other.

    Reasons: train and held_out (a keep for the part asked for, else a drop), split_bridge.

    Trajectories of one task, and trajectories whose texts share at least `threshold` of their shingles (true
    Jaccard), belong together, and so does what hangs together through them. A group goes to one side as a whole, by
    a hash of its smallest id. Sides are recorded in the lake under `name` and never change: a new trajectory joins
    the side that it hangs together with, and one that would tie both sides is dropped as split_bridge, with one id
    of each side as evidence. (So a split grown over time may differ from one made at once.)

    part: train, held_out, or all (both are kept, the reason tells them apart).
    held_out: the share of groups that is held out. threshold, window: as above, in shingles of so many words.
    name: splits of one name share their record.
    """

    part: Literal["train", "held_out", "all"] = "train"
    held_out: Annotated[float, Meta(ge=0, le=1)] = 0.1
    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.6
    window: Annotated[int, Meta(ge=1)] = 5
    name: str = "default"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """Recorded sides first, then what is new, by id."""
        import numpy as np

        from tasks.curate.features import stacked
        from tasks.curate.similarity.links import groups
        from tasks.curate.similarity.sketch import buckets, choose_bands, exact_buckets
        from tasks.curate.sketches import shingles, sketches

        recorded = _recorded(ctx.lake, refs, self._kind())
        sides = np.array([recorded[ref].side if ref in recorded else 0 for ref in refs], np.int64)
        found = sketches(ctx.lake, refs, "whole", self.window, standings(ctx.lake, refs))
        likely = buckets(found.sketches, found.n_shingles > 0, choose_bands(self.threshold))
        same = exact_buckets(found.features.hashes[:, 0], likely.n)
        task = found.features.codes[:, 0]
        task = np.where(task >= 0, task + int(same.max(initial=likely.n)) + 1, -1).astype(np.int32)
        candidates = np.flatnonzero((likely.of >= 0).any(axis=1))
        row = np.full(len(refs), -1, np.int64)
        row[candidates] = np.arange(len(candidates))
        order = np.array(sorted(range(len(refs)), key=lambda number: (sides[number] == 0, refs[number])), np.int64)
        grouped = groups(
            order,
            np.stack([task, same], axis=1),
            likely.of,
            shingles(ctx.lake, [refs[number] for number in candidates.tolist()], "whole", self.window),
            row,
            self.threshold,
            sides,
        )
        # A group keeps the name under which a member was recorded; a new one is named by its smallest id.
        names: dict[int, tuple[bool, str]] = {}
        for ref, root in zip(refs, grouped.root.tolist(), strict=True):
            mine = (False, recorded[ref].cluster) if ref in recorded else (True, ref)
            names[root] = min(mine, names.get(root, mine))
        choices, fresh = [], []
        for number, ref in enumerate(refs):
            one, two = grouped.bridge[number].tolist()
            if one != two:
                evidence = {"train": refs[one], "held_out": refs[two]}
                choices.append(Choice(False, "split_bridge", evidence=evidence))
                continue
            cluster = recorded[ref].cluster if ref in recorded else names[int(grouped.root[number])][1]
            side = int(sides[number] or grouped.side[number] or self._side(cluster, ctx.recipe.seed))
            name = _SIDES[side]
            choices.append(Choice(self.part in ("all", name), name, evidence={"cluster": cluster}))
            if ref not in recorded:
                fresh.append((ref, name, cluster))
        return Chosen(choices, side_rows(signatures=stacked([found.rows, self._rows(fresh)])))

    def fingerprint(self, ctx: "Context") -> str:
        """With the recipe's seed."""
        return content_id("operator", self.identity(), ctx.recipe.seed)

    def _kind(self) -> str:
        return f"split/1/{self.name}"

    def _side(self, cluster: str, seed: int) -> int:
        return 2 if seed_for(seed, self._kind(), cluster) < self.held_out * 2**63 else 1

    def _rows(self, fresh: Sequence[tuple[str, str, str]]) -> "pa.Table | None":
        import pyarrow as pa

        if not fresh:
            return None
        kind = self._kind()
        return pa.table(
            {
                "id": [content_id("signature", ref, kind) for ref, _, _ in fresh],
                "item_id": [ref for ref, _, _ in fresh],
                "kind": [kind] * len(fresh),
                "text_hash": [name for _, name, _ in fresh],
                "values": pa.array([cluster.encode() for _, _, cluster in fresh], pa.large_binary()),
            }
        )


class _Recorded(NamedTuple):
    side: int
    cluster: str


def _recorded(lake: "Lake", refs: Sequence[str], kind: str) -> dict[str, _Recorded]:
    """The side and the group of each trajectory that already has one."""
    rows = lake.sql(
        'select item_id, text_hash, "values" from signatures where kind = ? and item_id in (select id from ids)',
        ids=refs,
        params=[kind],
    ).to_pylist()
    return {row["item_id"]: _Recorded(_SIDES.index(row["text_hash"]), row["values"].decode()) for row in rows}
