"""The law of counts, checked: n_in = kept + dropped + dead + pending, and what was recorded is what is there.

for fault in check_counts(lake, run_id): print(fault)
"""

from warehouse.lake import Lake

_LINES = """
SELECT funnel.*, fanout.n_outputs, fanout.n_recorded AS outputs_recorded,
       row_number() OVER (PARTITION BY funnel.fingerprint, funnel.scope_hash ORDER BY funnel.created_at DESC) = 1
       AS newest
FROM funnel JOIN fanout USING (run_id, stage, entry, operator, fingerprint, scope_hash)
QUALIFY funnel.run_id = ?
"""

# Only stages that make rows; elsewhere an output is the item itself.
_DANGLING = """
SELECT line.stage, line.operator, count(DISTINCT output) AS n, min(output) AS example
FROM (SELECT stage, operator, fingerprint, unnest(outputs) AS output FROM rulings WHERE decision = 'keep') AS line
WHERE line.fingerprint IN (SELECT fingerprint FROM runs WHERE run_id = ? AND event = 'operator')
  AND line.stage IN ('synthesize', 'rollout', 'normalize', 'refine', 'pair')
  AND NOT EXISTS (FROM tasks WHERE id = output) AND NOT EXISTS (FROM trajectories WHERE id = output)
  AND NOT EXISTS (FROM pairs WHERE id = output)
GROUP BY ALL
"""


def check_counts(lake: Lake, run_id: str) -> list[str]:
    """What does not reconcile in the run, one sentence each; empty when the law holds."""
    faults = []
    for line in lake.sql(_LINES, params=[run_id]).to_pylist():
        name = f"{line['stage']}/{line['operator']} (entry {line['entry']})"
        total = line["n_kept"] + line["n_dropped"] + line["n_dead"] + line["n_pending"]
        if total != line["n_in"]:
            faults.append(
                f"{name}: {line['n_in']} items in, but {line['n_kept']} kept + {line['n_dropped']} dropped + "
                f"{line['n_dead']} dead + {line['n_pending']} pending = {total}"
            )
        if line["n_in"] != line["n_recorded"]:
            faults.append(f"{name}: planned {line['n_recorded']} items, the plan holds {line['n_in']}")
        if line["newest"] and not line["n_pending"] and line["n_outputs"] != line["outputs_recorded"]:
            faults.append(f"{name}: recorded {line['outputs_recorded']} outputs, the ledger holds {line['n_outputs']}")
    for line in lake.sql(_DANGLING, params=[run_id]).to_pylist():
        faults.append(
            f"{line['stage']}/{line['operator']}: {line['n']} outputs are in no table, such as {line['example']}"
        )
    return faults
