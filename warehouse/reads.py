"""The typed way out of the lake: structs by id, and side-table rows by trajectory."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import LakeError
from schemas.rows import Pair, StepLabel, TokenSpan, Verdict
from schemas.task import Task
from schemas.trajectory import Base, Trajectory
from warehouse.arrow import from_arrow
from warehouse.tables import row_columns

Row = TypeVar("Row", bound=Base)


class Finder(Protocol):
    """What typed reads need of a lake."""

    def find(
        self,
        table: str,
        column: str,
        keys: Sequence[str],
        columns: Sequence[str] = ("*",),
        where: str = "true",
        params: Sequence[Any] = (),
    ) -> pa.Table:
        """See Lake.find."""


class Reads:
    """Typed reads; mixed into `Lake`."""

    def tasks(self: Finder, ids: Sequence[str]) -> list[Task]:
        """The tasks with these ids, in this order; LakeError names one that is missing."""
        return _by_id(self, "tasks", Task, ids)

    def trajectories(self: Finder, ids: Sequence[str]) -> list[Trajectory]:
        """The trajectories with these ids, in this order; LakeError names one that is missing."""
        return _by_id(self, "trajectories", Trajectory, ids)

    def pairs(self: Finder, ids: Sequence[str]) -> list[Pair]:
        """The pairs with these ids, in this order; LakeError names one that is missing."""
        return _by_id(self, "pairs", Pair, ids)

    def verdicts(
        self: Finder, trajectory_ids: Sequence[str], by: Sequence[str] | None = None
    ) -> dict[str, list[Verdict]]:
        """Verdicts by trajectory, oldest first; a trajectory without any has an empty list.

        by: fingerprints of the operators whose verdicts are wanted; None for all.
        """
        return _of_trajectory(self, "verdicts", Verdict, trajectory_ids, by)

    def labels(
        self: Finder, trajectory_ids: Sequence[str], by: Sequence[str] | None = None
    ) -> dict[str, list[StepLabel]]:
        """Step labels by trajectory, oldest first; a trajectory without any has an empty list. by: as of verdicts."""
        return _of_trajectory(self, "step_labels", StepLabel, trajectory_ids, by)

    def token_spans(self: Finder, trajectory_ids: Sequence[str]) -> dict[str, list[TokenSpan]]:
        """Token spans by trajectory, by step; a trajectory without any has an empty list."""
        found = _of_trajectory(self, "token_spans", TokenSpan, trajectory_ids)
        return {key: sorted(spans, key=lambda span: span.step) for key, spans in found.items()}


def _by_id(lake: Finder, table: str, kind: type[Row], ids: Sequence[str]) -> list[Row]:
    if not ids:
        return []
    found = from_arrow(lake.find(table, "id", ids, row_columns(table)), kind)
    rows = {str(row.id): row for row in found}  # type: ignore[attr-defined]
    missing = [key for key in ids if key not in rows]
    if missing:
        raise LakeError(f"{len(missing)} of {len(ids)} ids are not in {table}, such as {missing[0]}")
    return [rows[key] for key in ids]


def _of_trajectory(
    lake: Finder, table: str, kind: type[Row], ids: Sequence[str], by: Sequence[str] | None = None
) -> dict[str, list[Row]]:
    result: dict[str, list[Row]] = {key: [] for key in ids}
    if not ids or (by is not None and not by):
        return result
    columns = row_columns(table)
    found = lake.find(table, "trajectory_id", ids, (*columns, "fingerprint", "created_at"))
    if by is not None:
        found = found.filter(
            pc.is_in(found["fingerprint"], value_set=pa.array(by, found.schema.field("fingerprint").type))
        )
    # A row that two processes appended at once stands there twice.
    seen: set[str] = set()
    for row in from_arrow(found.sort_by([("created_at", "ascending"), ("id", "ascending")]).select(columns), kind):
        if row.id not in seen:  # type: ignore[attr-defined]
            seen.add(row.id)  # type: ignore[attr-defined]
            result[row.trajectory_id].append(row)  # type: ignore[attr-defined]
    return result
