"""Dead letters: the items that could not be processed, where, why, and whether a later run decided them after all."""

from typing import TYPE_CHECKING, Any

from gristmill.views.ids import short
from gristmill.views.output import cut, out

if TYPE_CHECKING:
    from warehouse.lake import Lake

_SHOWN = 200

# A dead letter is written once, by the first run that met it; a later run that plans the item has it too.
_LETTERS = """
select distinct on (d.id) d.stage, d.operator, d.source, d.position, d.reason, d.detail, d.retry, d.item_id, d.run_id,
       exists (from decisions r where r.fingerprint = d.fingerprint and r.item_id = d.item_id) as decided
from dead_letters d
where $run = '' or d.run_id = $run or exists (
    from runs r join plans p on p.scope_hash = r.scope_hash
    where r.run_id = $run and r.event = 'operator' and r.fingerprint = d.fingerprint and p.item_id = d.item_id)
order by d.id, d.created_at
"""


def letters_of(lake: "Lake", run_id: str = "") -> list[dict[str, Any]]:
    """The dead letters of the items that a run planned, or of all runs; `decided`: a later run decided the item."""
    rows = lake.sql(_LETTERS, params={"run": run_id}).to_pylist()
    return sorted(rows, key=lambda row: (row["stage"], row["source"], row["position"], row["reason"]))


def print_letters(rows: list[dict[str, Any]], at: str) -> None:
    """Two or three lines each; those that a later run decided come last. at: the option that names the lake."""
    decided = sum(row["decided"] for row in rows)
    noun = "dead letter" if len(rows) == 1 else "dead letters"
    since = f", {decided} of them decided since by a later run" if decided else ""
    out.print(f"{len(rows)} {noun}{since}", style="bold")
    for row in sorted(rows, key=lambda row: bool(row["decided"]))[:_SHOWN]:
        where = " ".join(filter(None, [row["source"], row["position"]]))
        again = ", decided since" if row["decided"] else ", tried again by the next run" if row["retry"] else ""
        out.print(
            f"{row['stage']}/{row['operator']}  {short(where)}  {row['reason']}{again}  item {short(row['item_id'])}",
            markup=False,
            soft_wrap=True,
        )
        if row["detail"]:
            out.print(f"    {cut(row['detail'], 300)}", style="dim", markup=False, soft_wrap=True)
    if len(rows) > _SHOWN:
        out.print(f"{len(rows) - _SHOWN} more; --json lists all", style="dim")
    out.print(f"The story of one: gristmill why ITEM{at}", style="dim", markup=False, soft_wrap=True)
