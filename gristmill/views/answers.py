"""Writes the answer of a query: a table to look at, or JSON lines, CSV, Parquet for programs."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from gristmill.views.ids import short
from gristmill.views.output import cut
from schemas.errors import UserError

FORMATS = ("table", "json", "csv", "parquet")
_BY_SUFFIX = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
_SHOWN_ROWS = 200
_SHOWN_CHARACTERS = 400


def write_answer(answer: pa.Table, fmt: str, out: str) -> None:
    """Writes `answer` to the file `out`, or to standard output; a file appears whole or not at all."""
    if fmt not in FORMATS:
        raise UserError(f"Unknown format '{fmt}'.", f"Known: {', '.join(FORMATS)}.")
    if fmt == "parquet" and not out:
        raise UserError("Parquet does not go to standard output.", todo="Name a file with --out FILE.parquet")
    if out and (Path(out).is_dir() or not Path(out).parent.is_dir()):
        raise UserError(f"Nothing can be written to '{out}'.", "--out names a file in a folder that exists.")
    if fmt == "table" and out:
        # Where nothing else was asked for, the file's name says it; CSV, which every program reads, where it does not.
        fmt = _BY_SUFFIX.get(Path(out).suffix, "csv")
    answer = answer.rename_columns(_distinct(answer.column_names))
    if fmt == "table":
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
        partial.write_text(_text(answer, fmt), encoding="utf-8")
    partial.replace(target)


def _text(answer: pa.Table, fmt: str) -> str:
    import polars as pl

    if fmt == "json":
        import json

        rows = (_finite(row) for row in answer.to_pylist())
        return "".join(json.dumps(row, ensure_ascii=False, default=_plain, allow_nan=False) + "\n" for row in rows)
    flat = pa.table([_flat(column) for column in answer.columns], names=answer.column_names)
    text: str = pl.DataFrame(pl.from_arrow(flat)).write_csv()
    return text


def _distinct(names: Sequence[str]) -> list[str]:
    """The names with repeated ones numbered: a join of two tables has two ids, and none may get lost."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return result


def _plain(value: object) -> object:
    """JSON for what has no JSON type: DuckDB sums whole numbers into 128-bit decimals; times become text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: object) -> object:
    """NaN and infinities as null: JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as text; a nested value as it prints, since CSV has no place for it."""
    if pa.types.is_nested(column.type):
        return pa.chunked_array([[str(value) for value in column.to_pylist()]], pa.string())
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        shown = [value.hex() if isinstance(value, bytes) else str(value) for value in column.to_pylist()]
        return pa.chunked_array([shown], pa.string())


def _cell(value: object) -> str:
    return "" if value is None else cut(short(str(value)), _SHOWN_CHARACTERS)


def _show(answer: pa.Table) -> None:
    from gristmill.views.output import out, records, table

    names = answer.column_names
    if not answer.num_rows:
        out.print(f"0 rows of {', '.join(names)}", markup=False)
        return
    shown = answer.slice(0, _SHOWN_ROWS).to_pylist()
    rows = [[_cell(value) for value in row.values()] for row in shown]
    widths = [max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(names)]
    if sum(widths) + 3 * len(names) <= out.width or len(names) == 1:
        table("", names, rows)
    else:
        records(names, rows)
    if answer.num_rows > _SHOWN_ROWS:
        out.print(f"{answer.num_rows} rows, the first {_SHOWN_ROWS} shown; --format csv gives all.")
