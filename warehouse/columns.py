"""Structs to Arrow, column by column: the fast way for nested rows.

A list of structs is turned on its side (`msgspec.structs.astuple`, then `zip`), so that every loop over rows runs
inside the interpreter; a column without a value costs nothing. 5 to 10 times as fast as writing JSON text and
letting Arrow parse it, because long texts are copied once and never escaped.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import msgspec
import pyarrow as pa

from schemas.errors import FaultError

_astuple = msgspec.structs.astuple


def build_table(rows: Sequence[msgspec.Struct], schema: pa.Schema) -> pa.Table:
    """The rows, all of one struct type, under `schema`, which names some or all of its fields.

    Raises what Arrow raises for a value that does not fit, ValueError for a number that is not finite.
    """
    if not rows:
        return schema.empty_table()
    by_name = _columns(rows, type(rows[0]))
    return pa.Table.from_arrays([_array(by_name[field.name], field.type) for field in schema], schema=schema)


def _columns(rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct]) -> dict[str, tuple[Any, ...]]:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return dict(zip(names, zip(*map(_astuple, rows), strict=True), strict=True))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """One column. An empty tuple is an empty list, None is NULL."""
    first = values[0]
    if not isinstance(first, tuple | float) and values.count(first) == len(values):
        if first is None:
            return pa.nulls(len(values), kind)
        if isinstance(first, str | bool):
            return pa.repeat(pa.scalar(first, kind), len(values))
    if pa.types.is_struct(kind):
        return _structs(values, kind, values.count(None))
    if pa.types.is_list(kind):
        return _lists(values, kind, values.count(None))
    if pa.types.is_floating(kind) and not all(value is None or math.isfinite(value) for value in values):
        raise ValueError("a number that is not finite")
    return pa.array(values, kind)


def _structs(values: Sequence[Any], kind: pa.StructType, missing: int) -> pa.Array:
    present = [value for value in values if value is not None] if missing else values
    first = type(present[0])
    if any(type(value) is not first for value in present):
        raise FaultError(f"a column mixes {sorted({type(value).__name__ for value in present})}")
    by_name = _columns(present, first)
    fields = [kind.field(index) for index in range(kind.num_fields)]
    if not missing:
        return pa.StructArray.from_arrays([_array(by_name[f.name], f.type) for f in fields], fields=fields)
    # A NULL struct still takes a place in its children.
    where = [value is None for value in values]
    children = []
    for field in fields:
        given = iter(by_name[field.name])
        children.append(_array([None if gone else next(given) for gone in where], field.type))
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(where, pa.bool_()))


def _lists(values: Sequence[Any], kind: pa.ListType, missing: int) -> pa.Array:
    if missing:
        return pa.array(values, kind) if not pa.types.is_struct(kind.value_type) else _nullable(values, kind)
    flat = list(chain.from_iterable(values))
    offsets = pa.array(list(accumulate(map(len, values), initial=0)), pa.int32())
    child = _array(flat, kind.value_type) if flat else pa.array([], kind.value_type)
    return pa.ListArray.from_arrays(offsets, child, type=kind)


def _nullable(values: Sequence[Any], kind: pa.ListType) -> pa.Array:
    filled = _lists([value or () for value in values], kind, 0)
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(filled.offsets, filled.values, type=kind, mask=mask)
