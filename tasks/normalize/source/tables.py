"""Rows of Parquet and Arrow files as plain JSON data."""

import base64
import datetime
import decimal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import RecordError
from tasks.normalize.source.spans import Span, digest_of

_ROWS = 64


def rows_of(path: Path, key: bytes) -> Iterator[Span]:
    """One span a row: ordinal from 1, the row index as offset, the digest of its canonical JSON text under `key`."""
    index = 0
    for table in _batches(path):
        for row in table.to_pylist():
            yield Span(index + 1, index, 1, digest_of(msgspec.json.encode(plain(row), order="sorted"), key))
            index += 1


def read_rows(path: Path, rows: Sequence[int]) -> Iterator[Any]:
    """The rows with these indexes, ascending, as plain data. Memory: one row group."""
    wanted = iter(rows)
    want = next(wanted, None)
    index = 0
    for table in _batches(path, first=rows[0] if rows else 0):
        base = table.schema.metadata and table.schema.metadata.get(b"first")
        index = int(base) if base else index
        while want is not None and want < index + table.num_rows:
            yield plain(table.slice(want - index, 1).to_pylist()[0])
            want = next(wanted, None)
        index += table.num_rows
        if want is None:
            return
    if want is not None:
        raise RecordError("gone", f"row {want} is not in {path.name} any more")


def _batches(path: Path, first: int = 0) -> Iterator[pa.Table]:
    """Small tables in row order, from the row group that holds row `first` on."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        index, begin = 0, 0
        while index < file.num_row_groups - 1 and begin + file.metadata.row_group(index).num_rows <= first:
            begin += file.metadata.row_group(index).num_rows
            index += 1
        for batch in file.iter_batches(_ROWS, row_groups=list(range(index, file.num_row_groups))):
            yield pa.Table.from_batches([batch]).replace_schema_metadata({"first": str(begin)})
            begin += batch.num_rows
        return
    with pa.memory_map(str(path)) as source:
        try:
            reader = pa.ipc.open_stream(source)
            batches = iter(reader)
        except pa.ArrowInvalid:
            whole = pa.ipc.open_file(source)
            batches = (whole.get_batch(number) for number in range(whole.num_record_batches))
        begin = 0
        for batch in batches:
            yield pa.Table.from_batches([batch]).replace_schema_metadata({"first": str(begin)})
            begin += batch.num_rows


def plain(value: Any) -> Any:
    """Arrow values as JSON data: times as ISO text, bytes as a data URI, exact decimals as numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(key): plain(item) for key, item in value}
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return "data:application/octet-stream;base64," + base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
