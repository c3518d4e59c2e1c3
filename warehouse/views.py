# ruff: noqa: S608 - only names declared in this package are put into statements; values are parameters
"""The views of the lake: what people, reports and `gristmill query` read. Every view takes one row per id.

DuckLake enforces no uniqueness, so a view never trusts it: `_once` picks the first row of each id by row id
alone, without touching the wide columns. Replaced whenever a definition here changes (see
`warehouse.migrations`); a view may use those before it.

The law of counts: n_in = n_kept + n_dropped + n_dead + n_pending for every line of `funnel`. Each side is
counted by its own query over the plan's members; nothing is a difference of others, so that a broken ledger
shows. Numbers say how things stand now: an item that a later run decided is no longer pending in the funnel
of the run that left it open. `--at SNAPSHOT` shows how it stood.
"""

from typing import NamedTuple


def _once(table: str, columns: str = "*") -> str:
    return f"(SELECT {columns} FROM {table} WHERE rowid IN (SELECT min(rowid) FROM {table} GROUP BY id))"


_RULINGS = """
SELECT newest.* FROM (
    SELECT arg_max(struct_pack(id, run_id, operator, fingerprint, stage, item_id, scope_hash, decision, reason,
                               score, evidence_json, outputs, created_at), created_at) AS newest
    FROM decisions GROUP BY fingerprint, item_id)
"""

# An entry planned in parts (see `Operator.pages`) has one line per part; they count as one. Items are told apart by
# 128 bits of hash instead of their ids: over a million items that is a fifth of the memory.
_LINES = """
lines AS (
    SELECT *, min(id) OVER (PARTITION BY run_id, stage, entry, fingerprint) AS entry_id
    FROM {runs} WHERE event = 'operator' AND {where}
),
members AS MATERIALIZED (
    SELECT DISTINCT line.entry_id, line.scope, line.scope_hash, md5_number(line.fingerprint || member.item_id) AS item
    FROM lines AS line JOIN plans AS member ON member.scope_hash = line.scope_hash
    WHERE {mine}
),
"""

# One row per (entry of a run, planned item that has a ruling): the ruling that holds for the item.
# Scope item: the one ruling; set: the one made for exactly this plan; group: the newest. An item decided both ways
# counts twice, which breaks the law of counts as it should.
_STANDING = """
standing AS MATERIALIZED (
    SELECT member.entry_id, item, {columns}
    FROM members AS member
    JOIN (SELECT md5_number(fingerprint || item_id) AS item, scope_hash AS depends_on, decision, reason, outputs,
                 created_at
          FROM decisions WHERE fingerprint IN (SELECT fingerprint FROM lines) AND {mine}) AS ruling USING (item)
    WHERE CASE scope WHEN 'item' THEN depends_on = '' WHEN 'set' THEN depends_on = scope_hash ELSE true END
    GROUP BY member.entry_id, item, CASE scope WHEN 'group' THEN '' ELSE decision END
),
"""

# The plan of an entry: the hash of its ids, or of its parts' hashes.
_WHOLE = """CASE count(*) WHEN 1 THEN any_value(line.scope_hash)
       ELSE md5(string_agg(line.scope_hash, ',' ORDER BY line.scope_hash)) END AS scope_hash"""


class Slice(NamedTuple):
    """The `number`th of `of` slices of all items, by the hash of their ids."""

    number: int
    of: int

    def condition(self) -> str:
        """What is true of the ids in the slice, in SQL."""
        return "true" if self.of == 1 else f"hash(item_id) % {self.of} = {self.number}"


WHOLE = Slice(0, 1)


def funnel_query(where: str = "true", part: Slice = WHOLE) -> str:
    """The funnel of the runs that `where` names by columns of `runs`; a condition inside is not read past.

    part: only its items are counted; all slices' counts of items add up to the whole.
    """
    mine = part.condition()
    return f"""
WITH {_LINES.format(runs=_once("runs"), where=where, mine=mine)}
{_STANDING.format(columns=_REASONS, mine=mine)}
dead AS MATERIALIZED (
    SELECT member.entry_id, item, arg_max(reason, created_at) AS reason
    FROM members AS member
    JOIN (SELECT md5_number(fingerprint || item_id) AS item, reason, created_at
          FROM dead_letters WHERE {mine}) AS letter USING (item)
    WHERE NOT EXISTS (FROM standing WHERE standing.entry_id = member.entry_id AND standing.item = member.item)
    GROUP BY member.entry_id, item
),
planned AS (SELECT entry_id, count(*) AS n FROM members GROUP BY entry_id),
kept AS (SELECT entry_id, count(*) AS n FROM standing WHERE decision = 'keep' GROUP BY entry_id),
dropped AS (SELECT entry_id, count(*) AS n FROM standing WHERE decision = 'drop' GROUP BY entry_id),
died AS (SELECT entry_id, count(*) AS n FROM dead GROUP BY entry_id),
pending AS (
    SELECT entry_id, count(*) AS n FROM members AS member
    WHERE NOT EXISTS (FROM standing WHERE standing.entry_id = member.entry_id AND standing.item = member.item)
      AND NOT EXISTS (FROM dead WHERE dead.entry_id = member.entry_id AND dead.item = member.item)
    GROUP BY entry_id
),
why AS (
    SELECT entry_id, to_json(map_from_entries(list((reason, n) ORDER BY reason))) AS reasons
    FROM (SELECT entry_id, reason, count(*) AS n
          FROM (SELECT entry_id, reason FROM standing UNION ALL SELECT entry_id, reason FROM dead)
          GROUP BY entry_id, reason)
    GROUP BY entry_id
)
SELECT line.run_id, any_value(line.recipe) AS recipe, line.stage, line.entry, any_value(line.operator) AS operator,
       line.fingerprint, {_WHOLE}, any_value(line.unit) AS unit, sum(line.n_seen)::BIGINT AS n_seen,
       coalesce(any_value(planned.n), 0) AS n_in, coalesce(any_value(kept.n), 0) AS n_kept,
       coalesce(any_value(dropped.n), 0) AS n_dropped, coalesce(any_value(died.n), 0) AS n_dead,
       coalesce(any_value(pending.n), 0) AS n_pending, coalesce(any_value(why.reasons), '{{}}') AS reasons,
       sum(line.n_in)::BIGINT AS n_recorded, max(line.created_at) AS created_at
FROM lines AS line
LEFT JOIN planned USING (entry_id)
LEFT JOIN kept USING (entry_id)
LEFT JOIN dropped USING (entry_id)
LEFT JOIN died USING (entry_id)
LEFT JOIN pending USING (entry_id)
LEFT JOIN why USING (entry_id)
GROUP BY entry_id, line.run_id, line.stage, line.entry, line.fingerprint
ORDER BY min(line.created_at), line.entry
"""


_REASONS = "arg_max(decision, created_at) AS decision, arg_max(reason, created_at) AS reason"
_OUTPUTS = "arg_max(decision, created_at) AS decision, arg_max(outputs, created_at) AS outputs"


def outputs_query(where: str, part: Slice) -> str:
    """What the kept items of a slice became, by entry: two lists with the halves of each output's hash."""
    return f"""
WITH {_LINES.format(runs=_once("runs"), where=where, mine=part.condition())}
{_STANDING.format(columns=_OUTPUTS, mine=part.condition())}
became AS (
    SELECT entry_id, md5_number_upper(output) AS upper, md5_number_lower(output) AS lower
    FROM (SELECT entry_id, unnest(outputs) AS output FROM standing WHERE decision = 'keep')
)
SELECT line.stage, line.entry, line.fingerprint, list(upper) AS upper, list(lower) AS lower
FROM became JOIN (SELECT DISTINCT entry_id, stage, entry, fingerprint FROM lines) AS line USING (entry_id)
GROUP BY line.stage, line.entry, line.fingerprint
"""


def fanout_query(where: str = "true") -> str:
    """What became of the kept items, of the runs that `where` names by columns of `runs`."""
    return f"""
WITH {_LINES.format(runs=_once("runs"), where=where, mine="true")}
{_STANDING.format(columns=_OUTPUTS, mine="true")}
became AS (
    SELECT entry_id, count(DISTINCT output) AS n
    FROM (SELECT entry_id, md5_number(unnest(outputs)) AS output FROM standing WHERE decision = 'keep')
    GROUP BY entry_id
)
SELECT line.run_id, line.stage, line.entry, any_value(line.operator) AS operator, line.fingerprint, {_WHOLE},
       any_value(line.unit) AS unit, sum(line.n_inputs)::BIGINT AS n_inputs,
       coalesce(any_value(became.n), 0) AS n_outputs,
       coalesce(any_value(became.n), 0) / nullif(sum(line.n_inputs), 0) AS factor,
       sum(line.n_outputs)::BIGINT AS n_recorded, max(line.created_at) AS created_at
FROM lines AS line LEFT JOIN became USING (entry_id)
GROUP BY entry_id, line.run_id, line.stage, line.entry, line.fingerprint
ORDER BY min(line.created_at), line.entry
"""


_TEXT = "array_to_string(list_transform({parts}, lambda part: coalesce(part.text, '')), '')"

_STEPS = f"""
SELECT id AS trajectory_id, task_id, run_id, operator, place - 1 AS step, turn.source AS source,
       {_TEXT.format(parts="turn.content")} AS text, turn.reasoning AS reasoning,
       len(turn.tool_calls) AS n_tool_calls, len(turn.results) AS n_results, turn.name AS name, turn.model AS model,
       turn.finish_reason AS finish_reason, turn.usage.prompt_tokens AS prompt_tokens,
       turn.usage.completion_tokens AS completion_tokens, turn.usage.cost_usd AS cost_usd,
       turn.usage.latency_s AS latency_s, turn.weight AS weight, turn.reward AS reward, turn.timestamp AS timestamp
FROM (SELECT id, task_id, run_id, operator, unnest(steps) AS turn, generate_subscripts(steps, 1) AS place
      FROM {_once("trajectories")})
"""

_TOOL_CALLS = f"""
SELECT trajectory_id, task_id, run_id, operator, step, place - 1 AS position, call.id AS call_id, call.name AS name,
       call.arguments AS arguments, call.arguments_json AS arguments_json, call.state AS state,
       call.source_id AS source_id, call.id_generated AS id_generated,
       {_TEXT.format(parts="answer.content")} AS result, answer.is_error AS is_error, answer.paired_by AS paired_by
FROM (
    SELECT trajectory_id, task_id, run_id, operator, step, place, call,
           list_filter(results, lambda found: found.call_id = call.id)[1] AS answer
    FROM (
        SELECT trajectory_id, task_id, run_id, operator, step, turn.results AS results,
               unnest(turn.tool_calls) AS call, generate_subscripts(turn.tool_calls, 1) AS place
        FROM (SELECT id AS trajectory_id, task_id, run_id, operator, unnest(steps) AS turn,
                     generate_subscripts(steps, 1) - 1 AS step
              FROM {_once("trajectories")})))
"""

# Tables whose rows name what they were made from; the second entry is a column that names one more parent.
_CHILDREN = (
    ("tasks", None),
    ("trajectories", "task_id"),
    ("verdicts", "trajectory_id"),
    ("step_labels", "trajectory_id"),
    ("token_spans", "trajectory_id"),
    ("pairs", "task_id"),
    ("exports", None),
)


def _lineage() -> str:
    parts = []
    for table, more in _CHILDREN:
        columns = "id, run_id, operator, fingerprint, parents, created_at" + (f", {more}" if more else "")
        parents = f"list_distinct(list_append(parents, {more}))" if more else "list_distinct(parents)"
        parts.append(
            f"SELECT id, '{table}' AS kind, unnest({parents}) AS parent_id, "
            f"operator, fingerprint, run_id, created_at FROM {_once(table, columns)}"
        )
    return "SELECT * FROM (" + " UNION ALL ".join(parts) + ") WHERE parent_id IS NOT NULL"


_COST = f"""
SELECT run_id, operator, endpoint, model, count(*) AS calls, count(*) FILTER (cached) AS cached,
       count(*) FILTER (status <> 'ok') AS failed, sum(attempts)::BIGINT AS attempts,
       sum(prompt_tokens)::BIGINT AS prompt_tokens, sum(completion_tokens)::BIGINT AS completion_tokens,
       coalesce(sum(cost_usd) FILTER (NOT cached), 0) AS cost_usd, sum(latency_s) AS latency_s
FROM {_once("requests")} GROUP BY ALL ORDER BY ALL
"""

_PASS_RATES = f"""
SELECT trajectory.policy.teacher AS teacher, trajectory.policy.model AS model, task.kind AS task_kind,
       verdict.verifier AS verifier, count(*) AS n, count(*) FILTER (verdict.kind = 'pass') AS n_pass,
       n_pass / n AS pass_rate
FROM (SELECT newest.* FROM (SELECT arg_max(struct_pack(trajectory_id, verifier, kind, reward), created_at) AS newest
      FROM verdicts GROUP BY trajectory_id, verifier)) AS verdict
JOIN {_once("trajectories", "id, task_id, policy")} AS trajectory ON trajectory.id = verdict.trajectory_id
LEFT JOIN {_once("tasks", "id, kind")} AS task ON task.id = trajectory.task_id
WHERE verdict.kind IN ('pass', 'fail', 'timeout', 'memory', 'unparsable') AND verdict.reward IS NOT NULL
GROUP BY ALL ORDER BY ALL
"""

VIEWS: dict[str, str] = {
    "rulings": _RULINGS,
    "funnel": funnel_query(),
    "fanout": fanout_query(),
    "steps": _STEPS,
    "tool_calls": _TOOL_CALLS,
    "lineage": _lineage(),
    "cost": _COST,
    "pass_rates": _PASS_RATES,
}
