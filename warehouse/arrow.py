"""Rows to Arrow and back, under the declared schemas of `warehouse.tables`.

Nested rows (tasks, trajectories) are turned on their side by `warehouse.columns`; flat rows are built column by
column here. Both ways are exact: NULL, empty list and empty text stay apart.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import FaultError, RecordError
from schemas.trajectory import Base
from warehouse.columns import build_table
from warehouse.tables import STAMPED, TABLES, row_columns

Row = TypeVar("Row", bound=Base)
_NESTED = frozenset({"tasks", "trajectories"})


def to_arrow(table: str, rows: "Sequence[Base] | pa.Table") -> pa.Table:
    """The rows of one table as Arrow, without the stamped columns.

    A row that cannot be stored (a lone surrogate, an integer beyond 64 bits, NaN or an infinity outside of
    lists) is a RecordError that names it. A pa.Table is cast to the declared columns; unknown or missing ones are
    a FaultError.
    """
    if table not in TABLES:
        raise FaultError(f"there is no table '{table}'; known: {', '.join(TABLES)}")
    if isinstance(rows, pa.Table):
        return _conform(table, rows)
    expected = TABLES[table].row
    for row in rows:
        if not isinstance(row, expected):
            raise FaultError(f"table '{table}' takes {expected.__name__} rows, not {type(row).__name__}")
    build = _nested if table in _NESTED else _flat
    try:
        return build(table, rows)
    except (pa.ArrowException, UnicodeError, OverflowError, ValueError, TypeError) as error:
        raise _culprit(table, rows, error) from error


def _schema(table: str) -> pa.Schema:
    schema = TABLES[table].schema
    return pa.schema([schema.field(name) for name in row_columns(table)])


def _flat(table: str, rows: Sequence[Base]) -> pa.Table:
    schema = _schema(table)
    columns = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in schema]
    for field, column in zip(schema, columns, strict=True):
        # Lists are left alone: a log-probability may well be minus infinity.
        if pa.types.is_floating(field.type) and not pc.all(pc.is_finite(column), skip_nulls=True, min_count=0).as_py():
            raise ValueError(f"'{field.name}' is not a finite number")
    return pa.Table.from_arrays(columns, schema=schema)


def _nested(table: str, rows: Sequence[Base]) -> pa.Table:
    return build_table(rows, _schema(table))


def _culprit(table: str, rows: Sequence[Base], error: Exception) -> Exception:
    """The error of the first row that fails on its own."""
    build = _nested if table in _NESTED else _flat
    for index, row in enumerate(rows):
        try:
            build(table, [row])
        except (pa.ArrowException, UnicodeError, OverflowError, ValueError, TypeError) as cause:
            reason = "surrogate" if isinstance(cause, UnicodeError) else "unstorable"
            return RecordError(reason, f"row {index} (id {row.id!r}) of table '{table}': {cause}")  # type: ignore[attr-defined]
    return RecordError("unstorable", f"the rows of table '{table}' together: {error}")


def _conform(table: str, rows: pa.Table) -> pa.Table:
    schema = _schema(table)
    if "parents" not in rows.column_names:
        none = pa.array([[]] * rows.num_rows, schema.field("parents").type)
        rows = rows.append_column("parents", none)
    unknown = sorted(set(rows.column_names) - set(schema.names))
    missing = sorted(set(schema.names) - set(rows.column_names))
    if unknown or missing:
        raise FaultError(f"table '{table}': unknown columns {unknown}, missing columns {missing}")
    rows = rows.select(schema.names)
    try:
        # A cast to the same types copies all lists of structs.
        return rows if rows.schema.equals(schema) else rows.cast(schema)
    except pa.ArrowException as error:
        raise RecordError("unstorable", f"the given columns of table '{table}': {error}") from error


def stamp(table: str, rows: pa.Table, run_id: str, operator: str, fingerprint: str, now: datetime) -> pa.Table:
    """The rows with the common columns, in declared order. now: an aware time."""
    schema = TABLES[table].schema
    values: dict[str, Any] = dict(zip(STAMPED, (run_id, operator, fingerprint, now), strict=True))
    columns = [
        pa.repeat(pa.scalar(values[field.name], field.type), rows.num_rows)
        if field.name in values
        else rows.column(field.name)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def from_arrow(rows: pa.Table, kind: type[Row]) -> list[Row]:
    """Structs of `kind` from a table that has exactly its fields as columns (others are ignored)."""
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return msgspec.convert(rows.select(names).to_pylist(), list[kind])  # type: ignore[valid-type]
