"""A run as a page to look at: the funnel drawn, pass rates, groups, lengths, and examples of what was dropped and why.

The page is one file without scripts, and names nothing outside itself. Everything from the lake is escaped: a
trajectory may hold any text, markup included.
"""

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.views.funnel import recipe_of_run, told_apart
from gristmill.views.output import cut, reasons_text
from gristmill.views.summary import pass_rates
from schemas.trajectory import Trajectory, text_of
from schemas.vocabulary import Stage
from warehouse.counts import funnel_of

if TYPE_CHECKING:
    from warehouse.lake import Lake

# Examples of a reason, and how much of their text is shown.
_EXAMPLES, _TEXT = 2, 300

_RUN = """
select any_value(recipe) as recipe, min(created_at) as started,
       max(created_at) filter (event in ('finished', 'failed')) as ended,
       coalesce(max(status) filter (event in ('finished', 'failed')), 'unfinished') as status,
       any_value(summary_json) filter (event = 'finished') as summary,
       any_value(json_extract_string(summary_json, '$.error')) filter (event = 'failed') as error
from runs where run_id = ?
"""

# Tasks with several samples that the run's verify entries judged, by the share of samples with full reward.
_GROUPS = """
with judged as (
    select v.trajectory_id, max(v.reward) as reward from (select distinct on (id) * from verdicts) v
    where v.reward is not null and v.trajectory_id in (
        select p.item_id from plans p join runs r on r.scope_hash = p.scope_hash
        where r.run_id = ? and r.stage = 'verify' and r.fingerprint = v.fingerprint)
    group by v.trajectory_id
), groups as (
    select avg((reward >= 1)::int) as rate from judged
    join (select distinct on (id) id, task_id from trajectories) t on t.id = trajectory_id
    where task_id is not null group by task_id having count(*) > 1
)
select case when rate = 0 then 'none passes' when rate = 1 then 'all pass' when rate <= 0.25 then 'up to 25 %'
            when rate <= 0.5 then 'up to 50 %' when rate <= 0.75 then 'up to 75 %' else 'below 100 %' end as label,
       count(*) as n
from groups group by label order by min(rate)
"""
_STEPS = """
select case when steps <= 4 then steps::varchar when steps <= 8 then '5 to 8' when steps <= 16 then '9 to 16'
            when steps <= 32 then '17 to 32' when steps <= 64 then '33 to 64' else 'over 64' end as label, count(*) as n
from (select distinct on (id) id, len(steps) as steps from trajectories where id in (
    select unnest(d.outputs) from decisions d join runs r on r.fingerprint = d.fingerprint
    join plans p on p.scope_hash = r.scope_hash and p.item_id = d.item_id
    where r.run_id = ? and r.stage in ('rollout', 'normalize', 'refine') and d.decision = 'keep'))
group by label order by min(steps)
"""
# The rulings that hold for the run (as in `warehouse.views`): of an item the one, of a set that on this set, else the
# newest.
_DROPPED = """
with standing as (
    select r.stage, r.entry, r.operator, d.item_id, d.decision, d.reason, d.score, d.evidence_json
    from decisions d join runs r on r.fingerprint = d.fingerprint
    join plans p on p.scope_hash = r.scope_hash and p.item_id = d.item_id
    where r.run_id = ? and r.event = 'operator' and case r.scope
        when 'item' then d.scope_hash = '' when 'set' then d.scope_hash = r.scope_hash else true end
    qualify row_number() over (partition by r.stage, r.entry, d.item_id order by d.created_at desc) = 1
)
select * exclude (decision) from standing where decision = 'drop'
qualify row_number() over (partition by stage, entry, reason order by item_id) <= ?
"""


def write_report(lake: "Lake", run_id: str, out: Path) -> None:
    """Writes the page of a run to `out`: to a temporary name first, then under its own."""
    page = render(lake, run_id)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.new")
    try:
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def render(lake: "Lake", run_id: str) -> str:
    """The page of a run, as HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=True, trim_blocks=True
    )
    run = lake.sql(_RUN, params=[run_id]).to_pylist()[0]
    summary = json.loads(run["summary"]) if run["summary"] else {}
    lines = _lines(lake, run_id)
    return environment.get_template("report.html.j2").render(
        run_id=run_id,
        run=run,
        calls=summary.get("calls") or {},
        alarms=summary.get("alarms") or [],
        lines=lines,
        most=max((line["n_in"] for line in lines), default=0) or 1,
        rates=pass_rates(lake, run_id),
        groups=_bars(lake.sql_aside(_GROUPS, [run_id]).to_pylist()),
        steps=_bars(lake.sql_aside(_STEPS, [run_id]).to_pylist()),
        dropped=_dropped(lake, run_id),
    )


def _lines(lake: "Lake", run_id: str) -> list[dict[str, Any]]:
    apart = told_apart(recipe_of_run(lake, run_id))
    rows = sorted(funnel_of(lake, run_id), key=lambda row: row["created_at"])
    for row in rows:
        row["which"] = apart.get((row["stage"], row["entry"]), "")
        row["why"] = reasons_text(json.loads(row["reasons"])) if row["reasons"] else ""
    return rows


def _bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their share of the largest, in percent."""
    most = max((row["n"] for row in rows), default=0)
    return [{**row, "share": 100 * row["n"] / most} for row in rows]


def _dropped(lake: "Lake", run_id: str) -> list[dict[str, Any]]:
    """Examples of what each entry dropped, by reason, with what was asked and answered where it is a trajectory."""
    order = list(Stage)
    rows = lake.sql_aside(_DROPPED, [run_id, _EXAMPLES]).to_pylist()
    rows.sort(key=lambda row: (order.index(row["stage"]), row["entry"], row["reason"], row["item_id"]))
    found = lake.find("trajectories", "id", [row["item_id"] for row in rows], columns=("id",))
    known = set(found["id"].to_pylist())
    ids = list(dict.fromkeys(row["item_id"] for row in rows if row["item_id"] in known))
    texts = {one.id: _excerpt(one) for one in lake.trajectories(ids)}
    nothing = {"asked": "", "answered": ""}
    shown = [{**row, **texts.get(row["item_id"], nothing)} for row in rows]
    alike = groupby(shown, key=lambda row: (row["stage"], row["entry"], row["operator"], row["reason"]))
    return [
        {"stage": stage, "operator": operator, "reason": reason, "examples": list(examples)}
        for (stage, _, operator, reason), examples in alike
    ]


def _excerpt(trajectory: Trajectory) -> dict[str, str]:
    """What was asked first and what the agent said last."""
    asked = next((text_of(step.content) for step in trajectory.steps if step.source == "user"), "")
    answered = next((text_of(step.content) for step in reversed(trajectory.steps) if step.source == "agent"), "")
    return {"asked": cut(asked, _TEXT), "answered": cut(answered, _TEXT)}
