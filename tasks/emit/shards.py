"""Writes rows into shards: one declared schema, sized by bytes, the same bytes for the same rows.

Two containers: Parquet (zstd, fixed settings, `large_string`, row groups by bytes, so that no string column of a
row group comes near 2 GB) and JSON lines. Every shard is read back before it counts as written.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import FaultError
from schemas.trajectory import Base
from tasks.emit.columns import JSON_TEXT, Columns

Container = Literal["parquet", "jsonl"]
Row = Mapping[str, Any]

__all__ = ["JSON_TEXT", "Container", "Row", "ShardFile", "ShardWriter", "count_rows", "sha256_of", "table_of"]


class ShardFile(Base, frozen=True):
    """One shard: path relative to the folder, rows, size in bytes, sha256 of the file."""

    path: str
    rows: int
    bytes: int
    sha256: str


class ShardWriter:
    """Takes rows in their final order and cuts them into `data/<split>-<number>` files below `folder`.

    schema: the declared columns; None (JSON lines only) learns them from the records, those in `typed` as given.
    row_group_bytes and shard_bytes bound the uncompressed size; one row larger than a bound stands alone.
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema | None,
        container: Container,
        *,
        typed: Mapping[str, pa.DataType] | None = None,
        split: str = "train",
        row_group_bytes: int = 32 << 20,
        shard_bytes: int = 256 << 20,
    ) -> None:
        self._folder, self._schema, self._container, self._split = folder, schema, container, split
        self._row_group_bytes, self._shard_bytes = row_group_bytes, shard_bytes
        self._columns = Columns(typed or {})
        self._rows: list[Row] = []
        self._buffered = 0
        self._written = 0
        self._shard_rows = 0
        self._files: list[ShardFile] = []
        self._open: Any = None
        self._path = folder
        if schema is None and container == "parquet":
            raise FaultError("a Parquet shard needs a declared schema")
        (folder / "data").mkdir(parents=True, exist_ok=True)

    def add(self, row: Row) -> None:
        """Appends one row; a key that the schema does not declare, or lacks, is a fault."""
        if self._schema is None:
            self._columns.see(row)
        elif row.keys() != set(self._schema.names):
            raise FaultError(f"row keys {sorted(row)} are not the schema's {sorted(self._schema.names)}")
        self._rows.append(row)
        self._buffered += _size(row)
        if self._buffered >= self._row_group_bytes:
            self._flush()

    @property
    def schema(self) -> pa.Schema:
        """The columns of every shard; where they are learnt, those seen so far."""
        return self._columns.schema() if self._schema is None else self._schema

    def close(self) -> tuple[ShardFile, ...]:
        """Ends the last shard; an empty set still gives one shard with the schema and no row."""
        self._flush()
        if not self._files and self._open is None:
            self._start()
        self._finish()
        return tuple(self._files)

    def _start(self) -> None:
        self._path = self._folder / "data" / f"{self._split}-{len(self._files):05d}.{self._container}"
        self._written = self._shard_rows = 0
        if self._container == "parquet":
            self._open = pq.ParquetWriter(
                self._path,
                self._schema,
                compression="zstd",
                compression_level=3,
                version="2.6",
                data_page_version="1.0",
                use_dictionary=False,
                write_statistics=False,
                write_page_index=False,
                store_schema=True,
            )
        else:
            self._open = self._path.open("wb")

    def _flush(self) -> None:
        if not self._rows:
            return
        if self._open is None:
            self._start()
        if self._container == "parquet":
            table = table_of(self._rows, self._schema)
            self._open.write_table(table, row_group_size=max(1, len(self._rows)))
        else:
            self._open.write("".join(json_line(row) for row in self._rows).encode())
        self._written += self._buffered
        self._shard_rows += len(self._rows)
        self._rows, self._buffered = [], 0
        if self._written >= self._shard_bytes:
            self._finish()

    def _finish(self) -> None:
        if self._open is None:
            return
        self._open.close()
        self._open = None
        found = count_rows(self._path)
        if found != self._shard_rows:
            raise FaultError(f"{self._path.name}: {self._shard_rows} rows were written, {found} read back")
        self._files.append(
            ShardFile(
                path=self._path.relative_to(self._folder).as_posix(),
                rows=self._shard_rows,
                bytes=self._path.stat().st_size,
                sha256=sha256_of(self._path),
            )
        )


def table_of(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """Rows as one Arrow table; JSON columns take JSON text."""
    rows = list(rows)
    return pa.Table.from_arrays([array_of([row[f.name] for row in rows], f.type) for f in schema], schema=schema)


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as an Arrow array of `kind`, including JSON text and lists of it, which pa.array cannot build."""
    if isinstance(kind, pa.JsonType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_list(kind) and isinstance(kind.value_type, pa.JsonType):
        offsets: list[int | None] = [0]
        flat: list[Any] = []
        nulls = []
        for value in values:
            flat.extend(value or ())
            offsets.append(len(flat))
            nulls.append(value is None)
        mask = pa.array(nulls) if any(nulls) else None
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), array_of(flat, kind.value_type), type=kind, mask=mask
        )
    return pa.array(values, kind)


def json_line(row: Row) -> str:
    """One JSON line: keys in the row's order, text as it is, no NaN."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def count_rows(path: Path) -> int:
    """Rows of a shard as read back from the disk: every Parquet page, or every line, is decoded."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            return sum(batch.num_rows for batch in file.iter_batches())
    with path.open("rb") as handle:
        return sum(1 for line in handle if isinstance(json.loads(line), dict))


def sha256_of(path: Path) -> str:
    """The sha256 of a file, hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _size(value: Any) -> int:
    """Roughly the uncompressed bytes of a value in Arrow; the same for the same value on every machine."""
    if isinstance(value, str):
        return len(value) + 8
    if isinstance(value, Mapping):
        return sum(_size(child) for child in value.values())
    if isinstance(value, list | tuple):
        if value and not isinstance(value[0], int | float):
            return sum(_size(child) for child in value)
        return 4 * len(value) + 8
    nbytes = getattr(value, "nbytes", None)
    return nbytes if isinstance(nbytes, int) else 8
