"""Drops trajectories most of whose text stands in a longer one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from schemas.ids import digest
from schemas.trajectory import Trajectory
from tasks.curate.base import KEEP, Choice, Chosen, SetSelector, side_rows
from tasks.curate.facts import facts, task_codes
from tasks.curate.standing import SameTask, Standing, apart, standings
from tasks.curate.view import View, view_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tasks.context import Context
    from tasks.curate.features import Signed


class Containment(SetSelector, frozen=True, kw_only=True):
    """Drops trajectories most of whose text stands in a longer one.

    The reason is `contained`; the evidence the kept, longer trajectory and the share of shingles that it holds.

    threshold: least share of a text's distinct shingles that stand in the longer one (true, not estimated).
    window: words in a shingle. view: what is compared: whole (prompt and actions), actions, answer, prompt.
    min_shingles: texts with fewer are kept and not compared; a short phrase stands in many texts.
    same_task, across_tasks, templates: as in `near_duplicate`.
    verdicts: `respect` keeps a passed text that stands in one that did not pass; `ignore` does not look.
    """

    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.9
    window: Annotated[int, Meta(ge=1)] = 5
    view: View = "actions"
    min_shingles: Annotated[int, Meta(ge=1)] = 20
    same_task: SameTask = "spare_teachers"
    across_tasks: bool = True
    templates: Literal["spare", "compare"] = "spare"
    verdicts: Literal["respect", "ignore"] = "respect"

    @property
    def leans_on_verdicts(self) -> bool:
        """Unless verdicts are ignored."""
        return self.verdicts == "respect"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """From the longest to the shortest, against kept trajectories only."""
        import numpy as np

        from tasks.curate.features import raw_signatures, stacked
        from tasks.curate.similarity.contain import RATE, candidates
        from tasks.curate.similarity.shingles import ShingleSets
        from tasks.curate.sketches import shingles, templates

        kind = f"sampled/1/{self.view}/{self.window}/{RATE}"
        found = raw_signatures(ctx.lake, refs, kind, self._sign)
        told = facts(ctx.lake, refs, self.view)
        by_ref = standings(ctx.lake, refs)
        known = [by_ref[ref] for ref in refs]
        task = task_codes(known, told.values["prompt"].tolist()).tolist()
        arrays = [np.frombuffer(values, "<u8") for values in found.values]
        sizes = np.array([int(values[0]) for values in arrays], np.int64)
        # Numbers follow the ids, so that neither candidates nor ties depend on the order of `refs`.
        by_id = sorted(range(len(refs)), key=refs.__getitem__)
        long = [number for number in by_id if sizes[number] >= self.min_shingles]
        picked = [arrays[number][1:] for number in long]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in picked])]).astype(np.int64)
        joined = np.concatenate([np.zeros(0, np.uint64), *picked])
        pairs = candidates(ShingleSets(joined, offsets), sizes[long], self.threshold)
        outers: dict[int, list[int]] = {}
        for inner, outer in zip(pairs.inner.tolist(), pairs.outer.tolist(), strict=True):
            outers.setdefault(long[inner], []).append(long[outer])
        wanted = sorted({*outers, *(outer for many in outers.values() for outer in many)})
        sets = shingles(ctx.lake, [refs[number] for number in wanted], self.view, self.window)
        of = {number: sets.values[sets.offsets[at] : sets.offsets[at + 1]] for at, number in enumerate(wanted)}
        spared = self.templates == "spare"
        told_apart = templates(ctx.lake, [refs[number] for number in wanted], self.view) if spared else []
        of_template = dict(zip(wanted, told_apart, strict=False))
        choices: list[Choice] = [KEEP] * len(refs)
        # The longest first: whatever holds a text is decided before it.
        for number in sorted(outers, key=lambda one: (-sizes[one], refs[one])):
            shares = []
            for outer in outers[number]:
                if not choices[outer].keep or self._apart(
                    known[number], known[outer], task[number] == task[outer] >= 0
                ):
                    continue
                if spared and of_template[number].instance_beside(of_template[outer]):
                    continue
                shares.append((_share(of[number], of[outer]), outer))
            share, outer = max(shares, key=lambda pair: (pair[0], -sizes[pair[1]], refs[pair[1]]), default=(0.0, -1))
            if share >= self.threshold:
                choices[number] = Choice(False, "contained", share, {"kept": refs[outer], "share": share})
        return Chosen(choices, side_rows(signatures=stacked([found.rows, told.rows])))

    def _apart(self, one: Standing, other: Standing, same: bool) -> bool:
        if apart(same, one.teacher != other.teacher, self.same_task, self.across_tasks):
            return True
        return self.verdicts == "respect" and other.passed < one.passed

    def _sign(self, trajectories: Sequence[Trajectory]) -> "list[Signed]":
        """The number of distinct shingles, then the sampled ones, each 8 bytes."""
        import numpy as np

        from tasks.curate.features import Signed
        from tasks.curate.similarity.contain import sampled
        from tasks.curate.similarity.shingles import shingle_sets_of

        texts = [view_text(trajectory, self.view) for trajectory in trajectories]
        sets = shingle_sets_of(texts, self.window)
        sizes = np.diff(sets.offsets).astype("<u8")
        return [
            Signed(digest(text), size.tobytes() + sample.astype("<u8").tobytes())
            for text, size, sample in zip(texts, sizes, sampled(sets), strict=True)
        ]


def _share(inner: "NDArray[np.uint64]", outer: "NDArray[np.uint64]") -> float:
    import numpy as np

    return float(np.isin(inner, outer).sum() / len(inner))
