"""Shards: the same rows give the same bytes, one schema everywhere, loaded by `datasets` as they are."""

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import FaultError
from tasks.emit.card import write_card
from tasks.emit.manifest import VERSION, Lineage, Manifest
from tasks.emit.shards import JSON_TEXT, ShardFile, ShardWriter, sha256_of

SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("text", pa.large_string()),
        ("parts", pa.list_(JSON_TEXT)),
        ("n", pa.list_(pa.int32())),
    ]
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def write(folder: Path, rows: list[dict[str, Any]], **sizes: int) -> tuple[ShardFile, ...]:
    writer = ShardWriter(folder, SCHEMA, "parquet", **sizes)
    for row in rows:
        writer.add(row)
    return writer.close()


def card(folder: Path, files: tuple[ShardFile, ...], schema: pa.Schema = SCHEMA, container: str = "parquet") -> None:
    manifest = Manifest(
        gristmill=VERSION,
        dataset="d",
        label="l",
        format="f",
        fingerprint="",
        selection="",
        container=container,
        schema_text="",
        n_items=0,
        n_kept=0,
        n_rows=0,
        left_out={},
        files=files,
        lineage=Lineage(recipe="r", recipe_fingerprint=""),
        licence="",
        licences={},
    )
    write_card(folder, manifest, schema, "About.")


def load(folder: Path) -> list[dict[str, Any]]:
    return list(datasets.load_dataset(str(folder), cache_dir=str(folder.parent / "cache"))["train"])


def row(key: str, text: str | None = "t", parts: tuple[Any, ...] = (), n: tuple[int, ...] = (1,)) -> dict[str, Any]:
    return {"id": key, "text": text, "parts": [json.dumps(part) for part in parts], "n": list(n)}


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    rows = [row(f"{i:03d}", "x" * i, ({"a": i},), tuple(range(i))) for i in range(200)]
    first = write(tmp_path / "a", rows, row_group_bytes=2000, shard_bytes=9000)
    second = write(tmp_path / "b", rows, row_group_bytes=2000, shard_bytes=9000)
    assert first == second
    assert len(first) > 3
    assert sum(file.rows for file in first) == 200


def test_row_groups_and_shards_are_bounded_by_bytes(tmp_path: Path) -> None:
    files = write(tmp_path, [row(f"{i:03d}", "x" * 500) for i in range(100)], row_group_bytes=5000, shard_bytes=20000)
    for file in files:
        shape = pq.ParquetFile(tmp_path / file.path).metadata
        sizes = [shape.row_group(i).total_byte_size for i in range(shape.num_row_groups)]
        assert max(sizes) < 8000
        assert sum(sizes) < 30000


def test_a_column_null_in_one_file_and_text_in_the_next_loads(tmp_path: Path) -> None:
    rows = [row("1", None), row("2", None), row("3", "007"), row("4", "2020-01-01")]
    files = write(tmp_path, rows, row_group_bytes=1, shard_bytes=1)
    card(tmp_path, files)
    assert len(files) == 4
    assert [each["text"] for each in load(tmp_path)] == [None, None, "007", "2020-01-01"]


def test_folders_of_one_name_and_a_refreshed_folder_load_their_own_rows(tmp_path: Path) -> None:
    # `datasets` caches by the folder's name and the card: one cache for all, as a user has it.
    def loaded(folder: Path) -> list[str]:
        return list(datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))["train"]["id"])

    one, two = tmp_path / "one" / "sft", tmp_path / "two" / "sft"
    card(one, write(one, [row("1", "a")]))
    card(two, write(two, [row("2", "b"), row("3", "c")]))
    assert (loaded(one), loaded(two)) == (["1"], ["2", "3"])
    for file in (one / "data").iterdir():
        file.unlink()
    card(one, write(one, [row("4", "a")]))
    assert loaded(one) == ["4"]


def test_json_values_of_two_rows_never_merge(tmp_path: Path) -> None:
    parts = [({"f": {"a": 1}}, {"x": []}), ({"f": {"b": "2020-01-01"}}, {"x": {}}, {"x": None})]
    card(tmp_path, write(tmp_path, [row(str(i), parts=part) for i, part in enumerate(parts)]))
    assert [tuple(each["parts"]) for each in load(tmp_path)] == parts


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(values, max_size=3), min_size=1, max_size=4))
def test_any_json_survives_the_shard(tmp_path: Path, parts: list[list[Any]]) -> None:
    folder = tmp_path / "any"
    files = write(folder, [row(str(i), parts=tuple(part)) for i, part in enumerate(parts)])
    table = pq.read_table(folder / files[0].path)
    assert [[json.loads(text) for text in each] for each in table["parts"].to_pylist()] == parts


def test_no_row_still_gives_a_shard_with_the_schema(tmp_path: Path) -> None:
    files = write(tmp_path, [])
    assert [file.rows for file in files] == [0]
    assert pq.read_schema(tmp_path / files[0].path).names == SCHEMA.names


def test_a_row_with_other_keys_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(FaultError, match="row keys"):
        write(tmp_path, [{"id": "1"}])


def test_a_large_payload_comes_back_whole(tmp_path: Path) -> None:
    text = "ü" * (5 << 20)
    files = write(tmp_path, [row("1", text), row("2", text)])
    assert pq.read_table(tmp_path / files[0].path)["text"].to_pylist() == [text, text]
    assert sha256_of(tmp_path / files[0].path) == files[0].sha256


def test_json_lines_declare_what_they_hold(tmp_path: Path) -> None:
    rows = [
        {"messages": [{"role": "user", "content": None}], "id": "007", "success": None, "score": 1},
        {
            "messages": [{"role": "user", "content": "2020-01-01", "x": {"a": 1}}],
            "id": "8",
            "success": True,
            "score": 0.5,
        },
        {"messages": [{"role": "user", "content": [{"type": "text"}], "x": {"b": "1"}}], "id": "9", "mixed": 3},
        {"messages": [], "id": "10", "mixed": "three", "tools": [{"f": {"p": 1.5}}]},
    ]
    writer = ShardWriter(
        tmp_path, None, "jsonl", typed={"messages": pa.list_(JSON_TEXT)}, shard_bytes=1, row_group_bytes=1
    )
    for each in rows:
        writer.add(each)
    files = writer.close()
    assert len(files) == 4
    card(tmp_path, files, writer.schema, "jsonl")
    loaded = load(tmp_path)
    for given_row, found in zip(rows, loaded, strict=True):
        assert found == {name: given_row.get(name) for name in found}
