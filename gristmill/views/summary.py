"""What a person sees at the end of a run: counts, pass rates, cost, shards, what to try next."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.views.funnel import print_funnel
from gristmill.views.output import err, out, reasons_text, table
from gristmill.views.runs import at
from schemas.vocabulary import Stage

if TYPE_CHECKING:
    from flows.way import Summary
    from warehouse.lake import Lake


_RATES = """
select coalesce(t.policy.teacher, '') as teacher, coalesce(k.kind, '') as kind,
       coalesce(t.policy.strategy, '') as strategy, count(*) as samples,
       count(*) filter (v.kind = 'pass') as passed
from (select distinct on (id) * from verdicts) v
join (select distinct on (id) id, task_id, policy from trajectories) t on t.id = v.trajectory_id
left join (select distinct on (id) id, kind, verifier from tasks) k on k.id = t.task_id
-- One verdict a sample: what other verifiers think of it, and verdicts without a reward, are no passes or failures.
where v.reward is not null and v.verifier = coalesce(k.verifier."use", v.verifier) and v.trajectory_id in (
    select p.item_id from plans p join runs r on r.scope_hash = p.scope_hash
    where r.run_id = ? and r.stage = 'verify' and r.fingerprint = v.fingerprint)
group by all order by all
"""


def pass_rates(lake: "Lake", run_id: str) -> list[dict[str, Any]]:
    """How many of a run's samples passed, per teacher, kind of task and strategy."""
    rows: list[dict[str, Any]] = lake.sql_aside(_RATES, [run_id]).to_pylist()
    return rows


def print_summary(summary: "Summary", lake: "Lake", *, published: bool = True) -> None:
    """The whole summary of a run; what to try next where it published a dataset."""
    from warehouse.counts import funnel_of

    stages = {entry.stage for entry in summary.entries}
    print_funnel(lake, funnel_of(lake, summary.run_id))
    rates = pass_rates(lake, summary.run_id) if Stage.VERIFY in stages else []
    if rates:
        table(
            "pass rate",
            ["teacher", "task kind", "strategy", "samples", "passed", "rate"],
            [[*list(r.values()), f"{r['passed'] / r['samples']:.0%}"] for r in rates],
            right=["samples", "passed", "rate"],
        )
    calls = summary.calls
    if calls:
        out.print(
            f"model calls: {calls.get('calls', 0):.0f} made, {calls.get('cached', 0):.0f} from the record; "
            f"{calls.get('completion_tokens', 0):.0f} tokens generated; ${calls.get('usd', 0):.4f}"
        )
    else:
        out.print("model calls: none were needed")
    for alarm in summary.alarms:
        out.print(f"alarm: {alarm}", style="yellow", markup=False)
    for entry in summary.entries:
        if entry.stage == "emit" and not entry.n_in:
            out.print(f"shards: {entry.name} wrote nothing, since no item reached it", style="yellow", markup=False)
    if Stage.TRAIN in stages:
        _print_trainings(lake, summary)
    for label, folder in summary.shards:
        _print_shards(label, folder)
    out.print(f"run {summary.run_id} took {summary.seconds:.0f} s")
    if published:
        _try_next(summary, lake)


def _print_shards(label: str, folder: str) -> None:
    """A line per shard folder with its rows; one without any is worth a second look, and trainers refuse it."""
    from tasks.emit.manifest import read_manifest

    made = read_manifest(Path(folder))
    out.print(f"shards: {label:<14}{made.n_rows:>8} rows  {folder}", markup=False, soft_wrap=True)
    if not made.n_rows:
        why = f" ({reasons_text(made.left_out)})" if made.left_out else ""
        out.print(f"        {label} is empty: {made.n_items} items came to it{why}", style="yellow", markup=False)


def _print_trainings(lake: "Lake", summary: "Summary") -> None:
    """A line per checkpoint of the run's trainers, also of one that an earlier run trained."""
    trained = lake.sql(
        "select distinct on (d.id) r.name, d.evidence_json from runs r "
        "join plans p on p.scope_hash = r.scope_hash "
        "join decisions d on d.fingerprint = r.fingerprint and d.item_id = p.item_id "
        "where r.run_id = ? and r.event = 'operator' and r.stage = 'train'",
        params=[summary.run_id],
    ).to_pylist()
    for row in trained:
        made = json.loads(row["evidence_json"])
        losses = made.get("losses") or []
        text = f"trained: {row['name']} {made.get('steps')} steps on {made.get('rows')} rows"
        if losses:
            text += f", loss {losses[0]:.3g} to {losses[-1]:.3g}"
        if made.get("masked") is not None:
            text += f", {made['masked']:.0%} of the tokens masked"
        rewards = [value for value in made.get("rewards") or [] if value is not None]
        if rewards:
            text += f", reward {rewards[0]:.3g} to {rewards[-1]:.3g}"
        out.print(text, markup=False)
    for label, folder in summary.checkpoints:
        out.print(f"checkpoint: {label:<10}{folder}", markup=False)


def explain_failures(summary: "Summary") -> None:
    """Which entry's items failed beyond the recipe's limit, how many, and where to read why; on standard error."""
    for entry in summary.entries:
        if entry.n_in and entry.n_dead / entry.n_in > summary.max_failed:
            err.print(
                f"{entry.stage} {entry.name}: {entry.n_dead} of {entry.n_in} items failed; max_failed = "
                f"{summary.max_failed:g} allows {summary.max_failed:.0%} of an entry's items.",
                markup=False,
            )
    err.print(f"Which and why: gristmill failed {summary.run_id}{at(summary.lake)}", markup=False, soft_wrap=True)


def _try_next(summary: "Summary", lake: "Lake") -> None:
    """Three commands, each on a line of its own however narrow the terminal is, so that they can be copied."""
    where = at(summary.lake)
    # A trajectory of this run's dataset, else one that the run made.
    seen = lake.sql(
        "select outputs[1] as id from decisions where decision = 'keep' and run_id = ? "
        "and stage in ('curate', 'normalize', 'rollout', 'refine') order by stage, created_at desc, id limit 1",
        params=[summary.run_id],
    ).to_pylist()
    out.print("\ntry next:")
    lines = [f"  gristmill report{where}"]
    lines += [f"  gristmill show {seen[0]['id'][:12]}{where}"] if seen else []
    if any(entry.n_kept for entry in summary.entries):
        lines += [f"  gristmill export {summary.recipe} --format openai_chat --out shards/chat{where}"]
    else:
        lines = [f"  gristmill failed {summary.run_id}{where}"]
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def estimate(summary: "Summary") -> dict[str, float]:
    """The whole run's calls, cost (US dollars) and time (seconds), scaled up from a preview of a few items per entry.

    Each entry's planned size is scaled by how much larger the whole set of tasks is than the preview's.
    """
    tasks_planned = sum(r.n_planned for r in summary.entries if r.stage == "synthesize")
    tasks_tried = sum(r.n_in for r in summary.entries if r.stage == "synthesize")
    growth = tasks_planned / tasks_tried if tasks_tried else 1.0
    rollouts = [r for r in summary.entries if r.stage == "rollout"]
    planned = sum(r.n_planned for r in rollouts) * growth
    tried = sum(r.n_in for r in rollouts)
    factor = planned / tried if tried else growth
    calls = summary.calls
    return {
        "tasks": round(tasks_planned),
        "rollouts": round(planned),
        "calls": round(calls.get("calls", 0) * factor),
        "completion_tokens": round(calls.get("completion_tokens", 0) * factor),
        "cost_usd": round(calls.get("usd", 0.0) * factor, 6),
        "seconds": round(
            sum(r.seconds * (factor if r.stage in ("rollout", "verify") else 1.0) for r in summary.entries)
        ),
    }


def print_estimate(figures: dict[str, float]) -> None:
    """The estimate in words; three items do not tell how long a recipe takes that calls no model."""
    if not figures["tasks"] and not figures["rollouts"]:
        calls = f"about {figures['calls']:.0f} calls, ${figures['cost_usd']:.4f}" if figures["calls"] else "none"
        out.print(f"model calls: {calls}")
        return
    out.print(
        f"\nthe whole recipe: about {figures['tasks']:.0f} tasks, {figures['rollouts']:.0f} rollouts, "
        f"{figures['calls']:.0f} calls, {figures['completion_tokens']:.0f} generated tokens, "
        f"${figures['cost_usd']:.4f}, {figures['seconds'] / 60:.1f} minutes"
    )
