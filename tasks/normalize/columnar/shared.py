"""Columns of one value, shared by all batches, and structs that are made of a few columns and many such ones."""

from typing import Any

import pyarrow as pa

# What is made for more rows is not kept: half a megabyte of offsets.
_KEPT = 1 << 16


class Same:
    """A column of one value (None: NULL), of which every batch takes as many rows as it needs, not copied."""

    def __init__(self, value: Any, kind: pa.DataType) -> None:
        self.value, self.kind = value, kind
        self.held = self._made(1 << 10)

    def __call__(self, rows: int) -> pa.Array:
        """The column with so many rows."""
        held = self.held
        if len(held) < rows:
            held = self._made(rows)
            if rows <= _KEPT:
                self.held = held
        return held.slice(0, rows)

    def _made(self, rows: int) -> pa.Array:
        if self.value is None:
            return pa.nulls(rows, self.kind)
        return pa.array([self.value], self.kind).take(pa.repeat(pa.scalar(0), rows))


class Struct:
    """How structs of a kind are made: of columns by name, NULL in all other fields."""

    def __init__(self, kind: pa.StructType) -> None:
        self.fields = [kind.field(place) for place in range(kind.num_fields)]
        nulls = {str(field.type): Same(None, field.type) for field in self.fields}
        self.nulls = [nulls[str(field.type)] for field in self.fields]

    def __call__(self, rows: int, **columns: pa.Array) -> pa.Array:
        """The structs, so many."""
        given = zip(self.fields, self.nulls, strict=True)
        arrays = [columns[field.name] if field.name in columns else null(rows) for field, null in given]
        return pa.StructArray.from_arrays(arrays, fields=self.fields)
