"""Which trajectories a verifier judges."""

from typing import TYPE_CHECKING

from tasks.operator import Item, Plan, Unit, WorkingSet, select_ids

if TYPE_CHECKING:
    from tasks.context import Context


def plan_trajectories(reads: Unit, inputs: WorkingSet, ctx: "Context", verifier: str = "") -> Plan:
    """One item per trajectory that has a task; with `verifier`, only those whose task names it."""
    ids = select_ids(reads, inputs)
    rows = ctx.lake.sql(
        "select t.id, t.task_id from trajectories t join tasks k on k.id = t.task_id "
        "where (? = '' or k.verifier.\"use\" = ?) and t.id in (select id from ids)",
        ids=list(ids),
        params=[verifier, verifier],
    ).to_pylist()
    tasks = {row["id"]: row["task_id"] for row in rows}
    items = tuple(Item(id=ref, ref=ref, params={"task": tasks[ref]}) for ref in ids if ref in tasks)
    return Plan(items=items, n_seen=len(ids))


def plan_every(reads: Unit, inputs: WorkingSet) -> Plan:
    """One item per trajectory, with or without a task."""
    ids = select_ids(reads, inputs)
    return Plan(items=tuple(Item(id=ref, ref=ref) for ref in ids), n_seen=len(ids))
