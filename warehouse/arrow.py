"""Rows to Arrow and back, under the declared schemas of `warehouse.tables`.

Nested rows (tasks, trajectories) go through JSON text: msgspec writes it and Arrow's reader parses it into the
declared schema, 3 to 4 times as fast as building columns from Python dictionaries. Flat rows are built column
by column. Both ways are exact: NULL, empty list and empty text stay apart.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from schemas.errors import FaultError, RecordError
from schemas.task import Task
from schemas.trajectory import Base, Trajectory
from warehouse.tables import STAMPED, TABLES, row_columns

Row = TypeVar("Row", bound=Base)
_NESTED = frozenset({"tasks", "trajectories"})
# Arrow's JSON reader keeps one block's offsets in 32 bits while parsing; blocks stay far below that.
_BLOCK_BYTES = 256 << 20


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
    schema = _schema(table)
    encoder = msgspec.json.Encoder()
    blocks: list[pa.Table] = []
    lines: list[bytes] = []
    size = 0
    for row in rows:
        _refuse_infinite(row)
        line = encoder.encode(row)
        if lines and size + len(line) > _BLOCK_BYTES:
            blocks.append(_parse(lines, size, schema))
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        blocks.append(_parse(lines, size, schema))
    found = pa.concat_tables(blocks) if blocks else schema.empty_table()
    if found.num_rows != len(rows):
        raise FaultError(f"{len(rows)} rows of '{table}' became {found.num_rows}")
    return found


def _refuse_infinite(row: Base) -> None:
    """ValueError for NaN and infinities, which JSON text would turn into NULL."""
    numbers: list[float | None]
    if isinstance(row, Task):
        numbers = [row.difficulty]
    elif isinstance(row, Trajectory):
        numbers = [row.outcome.score]
        for step in row.steps:
            numbers += (step.weight, step.reward)
            if step.usage is not None:
                numbers += (step.usage.cost_usd, step.usage.latency_s)
    else:
        raise TypeError(f"{type(row).__name__} rows are not nested")
    if any(number is not None and not math.isfinite(number) for number in numbers):
        raise ValueError("a number in it is not finite")


def _parse(lines: list[bytes], size: int, schema: pa.Schema) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(b"\n".join(lines)),
        read_options=pj.ReadOptions(use_threads=False, block_size=max(size, 1) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )


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
    try:
        return rows.select(schema.names).cast(schema)
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
