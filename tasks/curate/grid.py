"""The columns by which a set can be balanced or mixed, and the cell of each trajectory."""

from collections.abc import Sequence
from typing import Literal, get_args

from schemas.errors import UserError
from warehouse.lake import Lake

Column = Literal[
    "task",
    "task_kind",
    "teacher",
    "strategy",
    "harness",
    "tier",
    "dataset",
    "licence",
    "action_space",
    "thinking",
    "steps",
]

# `steps` counts in powers of two: 1, 2, 3 to 4, 5 to 8, …
_SQL: dict[Column, str] = {
    "task": "t.task_id",
    "task_kind": "k.kind",
    "teacher": "coalesce(t.policy.teacher, t.policy.model)",
    "strategy": "t.policy.strategy",
    "harness": "t.policy.harness",
    "tier": "t.policy.tier",
    "dataset": "t.provenance.dataset",
    "licence": "t.provenance.licence",
    "action_space": "t.action_space",
    "thinking": "t.thinking::varchar",
    "steps": "(2 ** ceil(log2(greatest(len(t.steps), 1))))::bigint::varchar",
}


def cells(lake: Lake, refs: Sequence[str], columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """The values of each trajectory in `columns`, in the order of `refs`; "" where there is none."""
    unknown = [column for column in columns if column not in get_args(Column)]
    if unknown or not columns:
        raise UserError(f"Unknown column {unknown[:1]}.", f"Known: {', '.join(get_args(Column))}.")
    picked = ", ".join(f"coalesce({_SQL[column]}, '') as {column}" for column in columns)
    rows = lake.sql(
        f"select t.id, {picked} from trajectories t "  # noqa: S608 - the expressions are the constants above
        "left join (select distinct on (id) id, kind from tasks) k on k.id = t.task_id "
        "where t.id in (select id from ids)",
        ids=refs,
    ).to_pylist()
    found = {row["id"]: tuple(row[column] for column in columns) for row in rows}
    return [found[ref] for ref in refs]


def cell_name(columns: Sequence[Column], cell: tuple[str, ...]) -> dict[str, str]:
    """A cell as evidence."""
    return dict(zip(columns, cell, strict=True))
