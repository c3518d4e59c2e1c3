"""Learns the columns of JSON records as they pass, so that the dataset card can declare each with one type."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

JSON_TEXT = pa.json_(pa.large_string())
"""A column of JSON text that `datasets` reads back as the very objects, never as merged structs."""


class Columns:
    """Learns the columns of JSON records as they pass."""

    def __init__(self, typed: Mapping[str, pa.DataType]) -> None:
        self._typed = typed
        self._found: dict[str, set[str]] = {}

    def see(self, row: Mapping[str, Any]) -> None:
        """Takes one record into account."""
        for name, value in row.items():
            kinds = self._found.setdefault(name, set())
            if value is not None:
                kinds.add(type(value).__name__)

    def schema(self) -> pa.Schema:
        """Declared columns first, in their order, then the others by name; a format's unused columns are left out."""
        names = [name for name in self._typed if name in self._found]
        names += sorted(name for name in self._found if name not in self._typed)
        return pa.schema([(name, self._typed.get(name) or _type_of(self._found[name])) for name in names])


def _type_of(kinds: set[str]) -> pa.DataType:
    simple = {"str": pa.string(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
    if not kinds:
        return pa.string()
    if kinds == {"int", "float"}:
        return pa.float64()
    return simple.get(next(iter(kinds)), JSON_TEXT) if len(kinds) == 1 else JSON_TEXT
