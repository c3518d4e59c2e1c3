"""The law of counts, checked: n_in = kept + dropped + dead + pending, and what was recorded is what is there.

for fault in check_counts(lake, run_id): print(fault)

A run may have decided about millions of items, and a database that joins them all at once needs memory for all. So
items are counted slice by slice; of outputs, which two slices may share, 16 bytes of hash are kept.
"""

import json
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warehouse.lake import Lake
from warehouse.views import Slice, funnel_query, outputs_query

# Items of a slice: some 150 MB.
_SLICE = 200_000

_RUN = "run_id = $run"

# Outputs are compared only by the newest run of a plan: an item that was made anew since may have become another.
_RECORDED = """
SELECT stage, entry, fingerprint, sum(n_outputs)::BIGINT AS n_outputs, bool_and(newest) AS newest
FROM (SELECT any_value(own.stage) AS stage, any_value(own.entry) AS entry, any_value(own.fingerprint) AS fingerprint,
             any_value(own.n_outputs) AS n_outputs, count(later.id) = 0 AS newest
      FROM runs AS own LEFT JOIN runs AS later
      ON later.event = 'operator' AND later.fingerprint = own.fingerprint AND later.scope_hash = own.scope_hash
      AND later.created_at > own.created_at
      WHERE own.run_id = $run AND own.event = 'operator' GROUP BY own.id)
GROUP BY stage, entry, fingerprint
"""

# Only stages that make rows; elsewhere an output is the item itself.
_DANGLING = """
SELECT stage, operator, count(DISTINCT output) AS n, min(output) AS example
FROM (SELECT stage, operator, unnest(outputs) AS output FROM decisions
      WHERE fingerprint IN (SELECT fingerprint FROM runs WHERE run_id = $run AND event = 'operator')
        AND decision = 'keep' AND stage IN ('synthesize', 'rollout', 'normalize', 'refine', 'pair'))
WHERE NOT EXISTS (FROM tasks WHERE id = output) AND NOT EXISTS (FROM trajectories WHERE id = output)
  AND NOT EXISTS (FROM pairs WHERE id = output)
GROUP BY ALL
"""

_Key = tuple[str, int, str]
_ADDED = ("n_in", "n_kept", "n_dropped", "n_dead", "n_pending")


def funnel_of(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    """The lines of the view `funnel` that are the run's, in memory that does not follow its size."""
    return _funnel(lake, run_id, _slices(lake, run_id))


def _funnel(lake: Lake, run_id: str, parts: list[Slice]) -> list[dict[str, Any]]:
    lines: dict[_Key, dict[str, Any]] = {}
    reasons: dict[_Key, Counter[str]] = {}
    for part in parts:
        for line in lake.sql_aside(funnel_query(_RUN, part), {"run": run_id}).to_pylist():
            key, why = _key(line), json.loads(line["reasons"])
            if key in lines:
                line |= {name: lines[key][name] + line[name] for name in _ADDED}
            lines[key] = line
            reasons.setdefault(key, Counter()).update(why)
    return [line | {"reasons": _text(reasons[key])} for key, line in lines.items()]


def check_counts(lake: Lake, run_id: str) -> list[str]:
    """What does not reconcile in the run, one sentence each; empty when the law holds."""
    faults = []
    parts = _slices(lake, run_id)
    held = _outputs(lake, run_id, parts)
    recorded = {_key(line): line for line in lake.sql_aside(_RECORDED, {"run": run_id}).to_pylist()}
    for line in _funnel(lake, run_id, parts):
        name = f"{line['stage']}/{line['operator']} (entry {line['entry']})"
        total = line["n_kept"] + line["n_dropped"] + line["n_dead"] + line["n_pending"]
        if total != line["n_in"]:
            faults.append(
                f"{name}: {line['n_in']} items in, but {line['n_kept']} kept + {line['n_dropped']} dropped + "
                f"{line['n_dead']} dead + {line['n_pending']} pending = {total}"
            )
        if line["n_in"] != line["n_recorded"]:
            faults.append(f"{name}: planned {line['n_recorded']} items, the plan holds {line['n_in']}")
        outputs, n_outputs = recorded[_key(line)], held.get(_key(line), 0)
        if outputs["newest"] and not line["n_pending"] and n_outputs != outputs["n_outputs"]:
            faults.append(f"{name}: recorded {outputs['n_outputs']} outputs, the ledger holds {n_outputs}")
    for line in lake.sql_aside(_DANGLING, {"run": run_id}).to_pylist():
        faults.append(
            f"{line['stage']}/{line['operator']}: {line['n']} outputs are in no table, such as {line['example']}"
        )
    return faults


def _outputs(lake: Lake, run_id: str, parts: list[Slice]) -> dict[_Key, int]:
    """How many different outputs the kept items of each entry have."""
    found: dict[_Key, list[npt.NDArray[np.uint64]]] = {}
    for part in parts:
        table = lake.sql_aside(outputs_query(_RUN, part), {"run": run_id})
        for at, line in enumerate(table.select(["stage", "entry", "fingerprint"]).to_pylist()):
            found.setdefault(_key(line), []).append(
                np.stack([_numbers(table, "upper", at), _numbers(table, "lower", at)])
            )
    return {key: _different(np.concatenate(halves, axis=1)) for key, halves in found.items()}


def _numbers(table: pa.Table, column: str, at: int) -> npt.NDArray[np.uint64]:
    return np.asarray(table[column][at].values.to_numpy(), np.uint64)


def _different(halves: npt.NDArray[np.uint64]) -> int:
    """How many different columns there are."""
    upper, lower = halves[:, np.lexsort(halves)]
    return 1 + int(np.count_nonzero((upper[1:] != upper[:-1]) | (lower[1:] != lower[:-1])))


def _slices(lake: Lake, run_id: str) -> list[Slice]:
    """As many slices as the run's items need."""
    planned = lake.sql(
        "SELECT sum(n_in)::BIGINT AS n FROM runs WHERE run_id = ? AND event = 'operator'", params=[run_id]
    )
    of = max(1, -(-(planned["n"][0].as_py() or 0) // _SLICE))
    return [Slice(number, of) for number in range(of)]


def _text(reasons: Counter[str]) -> str:
    return json.dumps(dict(sorted(reasons.items())), separators=(",", ":"), ensure_ascii=False)


def _key(line: dict[str, Any]) -> _Key:
    return line["stage"], line["entry"], line["fingerprint"]
