"""Writes the answer of a query: a table to look at, or JSON lines, CSV, Parquet for programs."""

import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from schemas.errors import UserError

FORMATS = ("table", "json", "csv", "parquet")
_SHOWN_ROWS = 200
_SHOWN_CHARACTERS = 400


def write_answer(answer: pa.Table, fmt: str, out: str) -> None:
    """Writes `answer` to the file `out`, or to standard output; a file appears whole or not at all."""
    if fmt not in FORMATS:
        raise UserError(f"Unknown format '{fmt}'.", f"Known: {', '.join(FORMATS)}.")
    if fmt == "parquet" and not out:
        raise UserError("Parquet does not go to standard output.", todo="Name a file with --out FILE.parquet")
    if fmt == "table" and not out:
        _show(answer)
        return
    if not out:
        sys.stdout.write(_text(answer, fmt))
        return
    target = Path(out)
    partial = target.with_name(target.name + ".partial")
    if fmt == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(answer, partial)
    else:
        partial.write_text(_text(answer, "csv" if fmt == "table" else fmt), encoding="utf-8")
    partial.replace(target)


def _text(answer: pa.Table, fmt: str) -> str:
    import polars as pl

    if fmt == "json":
        import json

        return "".join(json.dumps(row, ensure_ascii=False, default=_plain) + "\n" for row in answer.to_pylist())
    flat = pa.table([_flat(column) for column in answer.columns], names=answer.column_names)
    text: str = pl.DataFrame(pl.from_arrow(flat)).write_csv()
    return text


def _plain(value: object) -> object:
    """JSON for what has no JSON type: DuckDB sums whole numbers into 128-bit decimals; times become text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.hex() if isinstance(value, bytes) else str(value)


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as text; a nested value as it prints, since CSV has no place for it."""
    if pa.types.is_nested(column.type):
        return pa.chunked_array([[str(value) for value in column.to_pylist()]], pa.string())
    return column.cast(pa.string())


def _cell(value: object) -> str:
    return "" if value is None else str(value)[:_SHOWN_CHARACTERS]


def _show(answer: pa.Table) -> None:
    from gristmill.output import out, records, table

    names = answer.column_names
    rows = [
        ["" if v is None else str(v)[:_SHOWN_CHARACTERS] for v in r.values()]
        for r in answer.slice(0, _SHOWN_ROWS).to_pylist()
    ]
    widths = [max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(names)]
    if sum(widths) + 3 * len(names) <= out.width or len(names) == 1:
        table("", names, rows)
    else:
        records(names, rows)
    if answer.num_rows > _SHOWN_ROWS:
        out.print(f"{answer.num_rows} rows, the first {_SHOWN_ROWS} shown; --format csv gives all.")
