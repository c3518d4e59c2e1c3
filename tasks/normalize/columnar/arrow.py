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
from tasks.normalize.columnar.tables import AGENT

# By kind of `tables`: system, user, agent, result, environment.
_SOURCES = [Source.SYSTEM, Source.USER, Source.AGENT, Source.ENVIRONMENT, Source.ENVIRONMENT]
# By code of `made`: by name, by order, none.
_PAIRED = [PairedBy.NAME, PairedBy.ORDER, PairedBy.NONE]


def steps_array(made: Made, ends: Array, tools: Array, kind: pa.ListType) -> pa.Array:
    """The column `steps`. ends: where the steps of every record end; tools: whether its agent was offered any."""
    steps, calls, results = made.count(STEPS), made.count(CALLS), made.count(RESULTS)
    step = kind.value_type
    content_kind, call_kind, result_kind = (_type(step, name) for name in ("content", "tool_calls", "results"))
    said_kind = _type(result_kind.value_type, "content")
    ids = _text(made, CALLS, ID_ENDS, IDS)
    tool_calls = _struct(
        calls,
        call_kind.value_type,
        id=ids,
        name=_text(made, CALLS, NAME_ENDS, NAMES),
        arguments=_text(made, CALLS, RAW_ENDS, RAW),
        arguments_json=_text(made, CALLS, JSON_ENDS, JSON),
        state=_all(ArgumentState.PARSED, calls),
        id_generated=pa.repeat(pa.scalar(True), calls),
    )
    answered = made.column(RESULTS, ANSWERED)
    outcome = _struct(
        results,
        result_kind.value_type,
        call_id=ids.take(pa.array(answered, mask=answered < 0)),
        name=_named(made),
        content=_list(
            made.column(RESULTS, ANSWER_ENDS, 1), _parts(_text(made, ANSWERS, SAID_ENDS, SAID), said_kind), said_kind
        ),
        paired_by=_code(_PAIRED, made.column(RESULTS, PAIRED)),
    )
    source = made.column(STEPS, SOURCE)
    content = _parts(_text(made, PARTS, CONTENT_ENDS, CONTENT), content_kind)
    flat = _struct(
        steps,
        step,
        source=_code(_SOURCES, source),
        content=_list(made.column(STEPS, PART_ENDS, 1), content, content_kind),
        tool_calls=_list(made.column(STEPS, CALL_ENDS, 1), tool_calls, call_kind),
        results=_list(made.column(STEPS, RESULT_ENDS, 1), outcome, result_kind),
        tools=_tools(source, ends, tools),
        source_inferred=pa.array(made.column(STEPS, INFERRED).astype(np.bool_)),
        copied_context=pa.repeat(pa.scalar(False), steps),
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
    given = columns.get(name)
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
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), pa.nulls(0, kind.value_type), type=kind)
    return pa.nulls(rows, kind)


def _type(struct: pa.StructType, name: str) -> pa.DataType:
    return struct.field(name).type


def _text(made: Made, rows: int, ends: int, text: int, valid: pa.Buffer | None = None) -> pa.Array:
    """A column of texts over the kernels' own memory, not copied."""
    buffers = [valid, made.buffer(made.column(rows, ends, 1)), made.buffer(made.text(text))]
    return pa.Array.from_buffers(pa.large_string(), made.count(rows), buffers)


def _all(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(str(value), pa.large_string()), count)


def _code(names: "list[Source] | list[PairedBy]", codes: Array) -> pa.Array:
    return pa.array([str(name) for name in names], pa.large_string()).take(pa.array(codes))


def _struct(rows: int, kind: pa.StructType, **columns: pa.Array) -> pa.Array:
    fields = [kind.field(place) for place in range(kind.num_fields)]
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _list(ends: Array, values: pa.Array, kind: pa.ListType) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), values, type=kind)


def _parts(texts: pa.Array, kind: pa.ListType) -> pa.Array:
    return _struct(len(texts), kind.value_type, type=_all(PartType.TEXT, len(texts)), text=texts)


def _named(made: Made) -> pa.Array:
    """The names of the results' tools."""
    named = made.column(RESULTS, NAMED)
    if not named.any():
        return pa.nulls(len(named), pa.large_string())
    valid = pa.py_buffer(np.packbits(named.astype(np.bool_), bitorder="little"))
    return _text(made, RESULTS, TOOL_ENDS, TOOLS, valid)


def _tools(source: Array, ends: Array, tools: Array) -> pa.Array:
    """The index of the tool set of every step: the record's only one, for its agent's steps."""
    if not tools.any():
        return pa.nulls(len(source), pa.int64())
    offered = np.repeat(tools.astype(np.bool_), np.diff(ends, prepend=0)) & (source == AGENT)
    return pa.array(np.zeros(len(source), np.int64), mask=~offered)
