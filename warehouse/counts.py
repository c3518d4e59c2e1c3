# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""The law of counts, checked: n_in = kept + dropped + dead + pending, and what was recorded is what is there.

for fault in check_counts(lake, run_id): print(fault)
"""

from warehouse.lake import Lake
from warehouse.views import fanout_query, funnel_query

# Outputs are compared only by the newest run of a plan: an item that was made anew since may have become another.
_LINES = f"""
SELECT funnel.*, fanout.n_outputs, fanout.n_recorded AS outputs_recorded,
       NOT EXISTS (FROM runs AS own JOIN runs AS later USING (fingerprint, scope_hash, event)
                   WHERE own.run_id = funnel.run_id AND own.stage = funnel.stage AND own.entry = funnel.entry
                   AND own.event = 'operator' AND later.created_at > own.created_at) AS newest
FROM ({funnel_query("run_id = $run")}) AS funnel
JOIN ({fanout_query("run_id = $run")}) AS fanout USING (run_id, stage, entry, operator, fingerprint)
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


def check_counts(lake: Lake, run_id: str) -> list[str]:
    """What does not reconcile in the run, one sentence each; empty when the law holds."""
    faults = []
    for line in lake.sql_aside(_LINES, {"run": run_id}).to_pylist():
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
    for line in lake.sql_aside(_DANGLING, {"run": run_id}).to_pylist():
        faults.append(
            f"{line['stage']}/{line['operator']}: {line['n']} outputs are in no table, such as {line['example']}"
        )
    return faults
