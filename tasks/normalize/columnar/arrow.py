"""Flat columns to the `trajectories` table, without an object per row: offsets become lists, columns structs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from schemas.trajectory import SCHEMA_VERSION
from schemas.vocabulary import ArgumentState, PairedBy, PartType, Source
from tasks.normalize.columnar.made import (
    ANSWER_ENDS,
    ANSWERED,
    ANSWERS,
    CALL_ENDS,
    CALLS,
    CONTENT,
    CONTENT_ENDS,
    ID_ENDS,
    IDS,
    INFERRED,
    JSON,
    JSON_ENDS,
    NAME_ENDS,
    NAMED,
    NAMES,
    PAIRED,
    PART_ENDS,
    PARTS,
    RAW,
    RAW_ENDS,
    RESULT_ENDS,
    RESULTS,
    SAID,
    SAID_ENDS,
    SOURCE,
    STEPS,
    TOOL_ENDS,
    TOOLS,
    Made,
)
from tasks.normalize.columnar.memory import Array
from tasks.normalize.columnar.shared import Same, Struct
from tasks.normalize.columnar.tables import AGENT
from warehouse.tables import FLAG, INT, PART, STEP, TEXT, TOOL_CALL, TOOL_RESULT

# By kind of `tables`: system, user, agent, result, environment.
_SOURCES = pa.array(
    [one.value for one in (Source.SYSTEM, Source.USER, Source.AGENT, Source.ENVIRONMENT, Source.ENVIRONMENT)], TEXT
)
# By code of `made`: by name, by order, none.
_PAIRED = pa.array([one.value for one in (PairedBy.NAME, PairedBy.ORDER, PairedBy.NONE)], TEXT)


_PART, _CALL, _RESULT, _STEP = Struct(PART), Struct(TOOL_CALL), Struct(TOOL_RESULT), Struct(STEP)
_PARTS, _CALLS, _RESULTS = (STEP.field(name).type for name in ("content", "tool_calls", "results"))
_TEXTUAL, _PARSED = Same(PartType.TEXT.value, TEXT), Same(ArgumentState.PARSED.value, TEXT)
_TRUE, _FALSE, _NO_TEXT, _NO_TOOLS = Same(True, FLAG), Same(False, FLAG), Same(None, TEXT), Same(None, INT)
# What stands in the columns of a table that nobody gives, by name.
_absent: dict[str, Same] = {}


def steps_array(made: Made, ends: Array, tools: Array, kind: pa.ListType) -> pa.Array:
    """The column `steps`. ends: where the steps of every record end; tools: whether its agent was offered any."""
    steps, calls, results = made.count(STEPS), made.count(CALLS), made.count(RESULTS)
    ids = _text(made, CALLS, ID_ENDS, IDS)
    tool_calls = _CALL(
        calls,
        id=ids,
        name=_text(made, CALLS, NAME_ENDS, NAMES),
        arguments=_text(made, CALLS, RAW_ENDS, RAW),
        arguments_json=_text(made, CALLS, JSON_ENDS, JSON),
        state=_PARSED(calls),
        id_generated=_TRUE(calls),
    )
    answered = made.column(RESULTS, ANSWERED)
    outcome = _RESULT(
        results,
        call_id=ids.take(pa.array(answered, mask=answered < 0)),
        name=_named(made),
        content=_list(made.column(RESULTS, ANSWER_ENDS, 1), _parts(_text(made, ANSWERS, SAID_ENDS, SAID)), _PARTS),
        paired_by=_code(_PAIRED, made.column(RESULTS, PAIRED)),
    )
    source = made.column(STEPS, SOURCE)
    flat = _STEP(
        steps,
        source=_code(_SOURCES, source),
        content=_list(made.column(STEPS, PART_ENDS, 1), _parts(_text(made, PARTS, CONTENT_ENDS, CONTENT)), _PARTS),
        tool_calls=_list(made.column(STEPS, CALL_ENDS, 1), tool_calls, _CALLS),
        results=_list(made.column(STEPS, RESULT_ENDS, 1), outcome, _RESULTS),
        tools=_tools(source, ends, tools),
        source_inferred=pa.array(made.column(STEPS, INFERRED).astype(np.bool_)),
        copied_context=_FALSE(steps),
    )
    return _list(np.concatenate([np.zeros(1, np.int64), ends]), flat, kind)


def table_of(schema: pa.Schema, rows: int, columns: Mapping[str, Any]) -> pa.Table:
    """A table of `rows` trajectories from columns: arrays, lists of values, or one value for all rows.

    A field of a struct column is named "column.field". What is not named is NULL, or empty where it is a list.
    """
    return pa.Table.from_arrays([_column(field.name, field.type, rows, columns) for field in schema], schema=schema)


def defaults() -> dict[str, Any]:
    """What is the same in every plain chat record."""
    return {"schema_version": SCHEMA_VERSION, "sample_index": 0, "truncated": False}


def _column(name: str, kind: pa.DataType, rows: int, columns: Mapping[str, Any]) -> pa.Array:
    absent = _absent.get(name)
    given = columns.get(name)
    if absent is not None and given is None:
        return absent(rows)
    if isinstance(given, pa.Array):
        return given
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        arrays = [_column(f"{name}.{field.name}", field.type, rows, columns) for field in fields]
        return pa.StructArray.from_arrays(arrays, fields=fields)
    if isinstance(given, list):
        return pa.array(given, kind)
    if given is not None:
        return pa.repeat(pa.scalar(given, kind), rows)
    _absent[name] = absent = Same([] if pa.types.is_list(kind) else None, kind)
    return absent(rows)


def _text(made: Made, rows: int, ends: int, text: int, valid: pa.Buffer | None = None) -> pa.Array:
    """A column of texts over the kernels' own memory, not copied."""
    buffers = [valid, made.buffer(made.column(rows, ends, 1)), made.buffer(made.text(text))]
    return pa.Array.from_buffers(pa.large_string(), made.count(rows), buffers)


def _code(names: pa.Array, codes: Array) -> pa.Array:
    return names.take(pa.array(codes))


def _list(ends: Array, values: pa.Array, kind: pa.ListType) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), values, type=kind)


def _parts(texts: pa.Array) -> pa.Array:
    return _PART(len(texts), type=_TEXTUAL(len(texts)), text=texts)


def _named(made: Made) -> pa.Array:
    """The names of the results' tools."""
    named = made.column(RESULTS, NAMED)
    if not named.any():
        return _NO_TEXT(len(named))
    valid = pa.py_buffer(np.packbits(named.astype(np.bool_), bitorder="little"))
    return _text(made, RESULTS, TOOL_ENDS, TOOLS, valid)


def _tools(source: Array, ends: Array, tools: Array) -> pa.Array:
    """The index of the tool set of every step: the record's only one, for its agent's steps."""
    if not tools.any():
        return _NO_TOOLS(len(source))
    offered = np.repeat(tools.astype(np.bool_), np.diff(ends, prepend=0)) & (source == AGENT)
    return pa.array(np.zeros(len(source), np.int64), mask=~offered)
