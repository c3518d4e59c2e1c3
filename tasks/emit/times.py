"""How often the rows of a trajectory are written: the multiplicities that curation recorded in its decisions."""

import json
from collections.abc import Sequence

from schemas.vocabulary import Stage
from tasks.context import Context
from tasks.recipe import entries, operator_of


def times_of(ctx: Context, ids: Sequence[str]) -> dict[str, int]:
    """The multiplicity of each trajectory that this recipe's own selectors resampled; those left out have 1."""
    curated = range(len(entries(ctx.recipe, Stage.CURATE)))
    selectors = (operator_of(ctx.recipe, Stage.CURATE, index) for index in curated)
    found: dict[str, int] = {}
    for fingerprint in [one.fingerprint(ctx) for one in selectors if getattr(one, "resamples", False)]:
        columns, where = ("item_id", "evidence_json"), "fingerprint = ? and decision = 'keep'"
        decided = ctx.lake.find("decisions", "item_id", ids, columns, where, [fingerprint])
        # One process may have appended what another one appended as well: one decision an item.
        for item, evidence in dict(zip(*(decided[name].to_pylist() for name in columns), strict=True)).items():
            found[item] = found.get(item, 1) * int(json.loads(evidence)["times"])
    return {ref: times for ref, times in found.items() if times > 1}
