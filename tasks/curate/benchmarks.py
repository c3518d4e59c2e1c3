"""Benchmark files for decontamination: their rows, what identifies them, and the indexes over them.

A file is JSONL (a row a line, an object or a string), a JSON array, Parquet, or plain text (a row a line).
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.errors import UserError
from schemas.ids import digest

if TYPE_CHECKING:
    from tasks.curate.similarity.ngrams import NgramIndex

# Fields that name a repository and a commit, or the row itself, in benchmarks and in recorded runs.
REPOSITORY, COMMIT, INSTANCE = ("repo", "repository"), ("base_commit", "commit"), ("instance_id",)
_COMMIT_DIGITS = 12


class Row(NamedTuple):
    """A row: its number in the file from 0, its texts, and where it stands in a repository, if it says so."""

    number: int
    texts: tuple[str, ...]
    place: str | None
    instance: str | None


def file_hash(path: Path) -> str:
    """The hash of the file's bytes; UserError when it cannot be read."""
    try:
        return digest(path.read_bytes())
    except OSError as error:
        raise UserError(f"The benchmark file {path} cannot be read: {error.strerror}.") from error


@functools.lru_cache(maxsize=32)
def read_rows(path: Path, hashed: str, fields: tuple[str, ...]) -> tuple[Row, ...]:
    """All rows. fields: the fields whose text counts, empty for all; `hashed` is the file's hash, for the cache."""
    rows = []
    for number, raw in enumerate(_records(path)):
        if isinstance(raw, dict):
            unknown = [field for field in fields if field not in raw]
            if unknown and number == 0:
                raise UserError(
                    f"The benchmark file {path} has no field {unknown[0]!r}.",
                    f"Its fields: {', '.join(map(str, raw))}.",
                )
            chosen = {key: value for key, value in raw.items() if key in fields} if fields else raw
            rows.append(Row(number, tuple(_strings(chosen)), place_of(raw), _first(raw, INSTANCE)))
        else:
            rows.append(Row(number, tuple(_strings(raw)), None, None))
    if not rows:
        raise UserError(f"The benchmark file {path} is empty.")
    return tuple(rows)


def place_of(record: dict[str, Any]) -> str | None:
    """Repository and commit of a record, or None when it does not name both."""
    repository, commit = _first(record, REPOSITORY), _first(record, COMMIT)
    if repository is None or commit is None:
        return None
    name = "/".join(repository.lower().removesuffix(".git").rstrip("/").split("/")[-2:])
    return f"{name}@{commit.lower()[:_COMMIT_DIGITS]}"


def instance_of(record: dict[str, Any]) -> str | None:
    """The benchmark's own name of a record, or None."""
    return _first(record, INSTANCE)


class Index(NamedTuple):
    """What a benchmark is asked with: n-grams of its texts, its short texts, its places, its instances.

    `owners` gives the row of each indexed text.
    """

    texts: tuple[str, ...]
    owners: tuple[int, ...]
    ngrams: "NgramIndex"
    short: dict[str, int]
    places: dict[str, int]
    instances: dict[str, int]


@functools.lru_cache(maxsize=32)
def index(path: Path, hashed: str, fields: tuple[str, ...], n: int, common: int) -> Index:
    """The index over a benchmark's rows."""
    from tasks.curate.similarity.ngrams import NgramIndex
    from tasks.curate.similarity.words import without_signs, words

    rows = read_rows(path, hashed, fields)
    texts, owners = [], []
    short: dict[str, int] = {}
    for row in rows:
        for text in row.texts:
            cut = words(without_signs(text))
            if len(cut) >= n:
                texts.append(text)
                owners.append(row.number)
            elif len(cut) > 1:
                short.setdefault(" ".join(cut).lower(), row.number)
    return Index(
        tuple(texts),
        tuple(owners),
        NgramIndex(texts, n, common),
        short,
        _numbered((row.place, row.number) for row in rows),
        _numbered((row.instance, row.number) for row in rows),
    )


def _numbered(pairs: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, number in pairs:
        if key is not None:
            found.setdefault(key, number)
    return found


def _records(path: Path) -> Sequence[Any]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        records: list[Any] = pq.read_table(path).to_pylist()
        return records
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".json":
            value = json.loads(text)
            return value if isinstance(value, list) else [value]
        lines = [line for line in text.split("\n") if line.strip()]
        return [json.loads(line) for line in lines] if path.suffix in {".jsonl", ".ndjson"} else lines
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"The benchmark file {path} cannot be read: {error}.") from error


def _strings(value: Any) -> list[str]:
    """All texts in a JSON value, in order."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, dict):
        return [text for child in value.values() for text in _strings(child)]
    if isinstance(value, list):
        return [text for child in value for text in _strings(child)]
    return []


def _first(record: dict[str, Any], names: Sequence[str]) -> str | None:
    return next((str(record[name]) for name in names if record.get(name)), None)
