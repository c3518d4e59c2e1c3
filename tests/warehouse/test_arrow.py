"""Rows survive Arrow, Parquet and the lake exactly; what cannot be stored is named."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import FaultError, RecordError
from schemas.ids import with_id
from schemas.rows import Embedding, Pair, Signature, TokenSpan, Verdict
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import (
    Base,
    Outcome,
    Part,
    Policy,
    Provenance,
    Step,
    Subagent,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
    text_part,
)
from schemas.vocabulary import ActionSpace, ArgumentState, PairedBy, PartType, Source, VerdictKind
from tests.warehouse.filled import STAMP, make_tasks, make_trajectories
from warehouse.arrow import from_arrow, to_arrow
from warehouse.lake import Lake
from warehouse.tables import COMMON, TABLES, sql_type

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.sampled_from(
    ["", "007", "2024-01-01", "null", "{}", "[]", "a\r\nb", "\x00", "\ufeffx", "\u2028", "\U0001f378", "NaN", "1e5"]
)
MAYBE = st.none() | TEXT
INT = st.integers(-(2**63), 2**63 - 1)
REAL = st.none() | st.floats(allow_nan=False, allow_infinity=False)
FLAG = st.none() | st.booleans()
PARTS = st.lists(
    st.builds(Part, type=st.sampled_from(PartType), text=MAYBE, media_type=MAYBE, sha256=MAYBE, uri=MAYBE), max_size=2
).map(tuple)
CALLS = st.lists(
    st.builds(
        ToolCall,
        id=TEXT,
        name=TEXT,
        arguments=TEXT,
        arguments_json=MAYBE,
        state=st.sampled_from(ArgumentState),
        source_id=MAYBE,
        id_generated=st.booleans(),
    ),
    max_size=3,
).map(tuple)
RESULTS = st.lists(
    st.builds(
        ToolResult,
        call_id=MAYBE,
        source_call_id=MAYBE,
        name=MAYBE,
        content=PARTS,
        is_error=FLAG,
        paired_by=st.sampled_from(PairedBy),
    ),
    max_size=3,
).map(tuple)
USAGE = st.none() | st.builds(
    Usage,
    prompt_tokens=st.none() | INT,
    completion_tokens=st.none() | INT,
    cached_tokens=st.none() | INT,
    reasoning_tokens=st.none() | INT,
    cost_usd=REAL,
    latency_s=REAL,
)
STEPS = st.lists(
    st.builds(
        Step,
        source=st.sampled_from(Source),
        content=PARTS,
        reasoning=MAYBE,
        tool_calls=CALLS,
        results=RESULTS,
        tools=st.none() | st.integers(0, 5),
        name=MAYBE,
        timestamp=MAYBE,
        model=MAYBE,
        finish_reason=MAYBE,
        usage=USAGE,
        weight=REAL,
        reward=REAL,
        source_inferred=st.booleans(),
        copied_context=st.booleans(),
        extra_json=MAYBE,
    ),
    max_size=4,
).map(tuple)
NAMES = st.lists(TEXT, max_size=3).map(tuple)
PROVENANCE = st.builds(
    Provenance, dataset=MAYBE, revision=MAYBE, file=MAYBE, record=MAYBE, lost_fields=NAMES, replaced_text=NAMES
)
TRAJECTORY = st.builds(
    Trajectory,
    id=TEXT,
    steps=STEPS,
    task_id=MAYBE,
    parents=NAMES,
    sample_index=INT,
    tool_sets=NAMES,
    policy=st.builds(Policy, teacher=MAYBE, model=MAYBE, strategy=MAYBE, role=MAYBE),
    provenance=PROVENANCE,
    outcome=st.builds(Outcome, success=FLAG, score=REAL, raw_json=MAYBE),
    action_space=st.sampled_from(ActionSpace),
    thinking=FLAG,
    branch_point=st.none() | st.integers(0, 9),
    subagents=st.lists(st.builds(Subagent, step=st.integers(0, 9), trajectory_id=TEXT, call_id=MAYBE), max_size=2).map(
        tuple
    ),
    truncated=st.booleans(),
    source_id=MAYBE,
    extra_json=MAYBE,
)
TASK = st.builds(
    Task,
    id=TEXT,
    kind=TEXT,
    prompt=st.lists(st.builds(Message, role=TEXT, content=TEXT), max_size=2).map(tuple),
    verifier=st.builds(VerifierSpec, use=TEXT, spec_json=TEXT),
    gold=MAYBE,
    tools_json=MAYBE,
    environment_json=MAYBE,
    difficulty=REAL,
    name=MAYBE,
    parents=NAMES,
    provenance=PROVENANCE,
)


@pytest.mark.parametrize("table", TABLES)
def test_the_declared_columns_are_the_fields_of_the_row_type(table: str) -> None:
    declared = set(TABLES[table].schema.names) - {"run_id", "operator", "fingerprint", "created_at"}
    assert declared == {field.encode_name for field in msgspec.structs.fields(TABLES[table].row)}
    assert TABLES[table].schema.names[: len(COMMON)] == COMMON.names


@settings(max_examples=30, deadline=None)
@given(st.lists(TRAJECTORY, min_size=1, max_size=4))
def test_trajectories_are_the_same_after_parquet(rows: list[Trajectory]) -> None:
    assert from_arrow(through_parquet(to_arrow("trajectories", rows)), Trajectory) == rows


@settings(max_examples=30, deadline=None)
@given(st.lists(TASK, min_size=1, max_size=4))
def test_tasks_are_the_same_after_parquet(rows: list[Task]) -> None:
    assert from_arrow(through_parquet(to_arrow("tasks", rows)), Task) == rows


def through_parquet(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return pq.read_table(pa.BufferReader(sink.getvalue()))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(TRAJECTORY, min_size=1, max_size=5))
def test_trajectories_are_the_same_after_the_lake(lake: Lake, rows: list[Trajectory]) -> None:
    # Ids are hashes; a NUL in one would break DuckLake's own catalog query.
    rows = [with_id(row, STAMP.fingerprint) for row in rows]
    known = set(lake.sql("select id from trajectories")["id"].to_pylist())
    rows = [row for row in {row.id: row for row in rows}.values() if row.id not in known]
    assert lake.append(STAMP, {"trajectories": rows}) == {"trajectories": len(rows)}
    assert lake.trajectories([row.id for row in rows]) == rows


def test_flat_rows_are_the_same_after_the_lake(lake: Lake) -> None:
    span = TokenSpan(
        id="t",
        trajectory_id="x",
        step=3,
        prompt_token_ids=(1, 2**40),
        completion_logprobs=(-0.1, float("-inf")),
        raw_text="\x00é",
    )
    bare = TokenSpan(id="u", trajectory_id="x", step=1)
    pair = Pair(id="p", kind="preference", parents=("a", "b"))
    verdict = Verdict(id="v", trajectory_id="x", verifier="answer", kind=VerdictKind.UNPARSABLE)
    lake.append(STAMP, {"token_spans": [span, bare], "pairs": [pair], "verdicts": [verdict]})
    assert lake.token_spans(["x"]) == {"x": [bare, span]}
    assert lake.pairs(["p"]) == [pair]
    assert lake.verdicts(["x", "y"]) == {"x": [verdict], "y": []}
    lake.append(
        STAMP,
        {
            "signatures": [Signature(id="s", item_id="x", kind="minhash", values=bytes(range(256)))],
            "embeddings": [Embedding(id="e", item_id="x", model="m", vector=(0.5, -1.0))],
        },
    )
    assert lake.sql('select "values" as b from signatures')["b"].to_pylist() == [bytes(range(256))]
    assert lake.sql("select vector from embeddings")["vector"].to_pylist() == [[0.5, -1.0]]


def test_a_large_observation_comes_back_whole(lake: Lake) -> None:
    text = base64.b85encode(bytes(range(256)) * 16384).decode()
    assert len(text) > 5_000_000
    rows = [
        msgspec.structs.replace(row, steps=(*row.steps, Step(source=Source.ENVIRONMENT, content=text_part(text))))
        for row in make_trajectories(2)
    ]
    lake.append(STAMP, {"trajectories": rows})
    assert lake.trajectories([row.id for row in rows]) == rows


@pytest.mark.parametrize(
    ("table", "bad", "reason"),
    [
        ("trajectories", Trajectory(id="bad", steps=(Step(source=Source.USER, reasoning="\ud83c"),)), "surrogate"),
        ("trajectories", Trajectory(id="bad", steps=(), sample_index=2**63), "unstorable"),
        ("trajectories", Trajectory(id="bad", steps=(Step(source=Source.USER, weight=float("nan")),)), "unstorable"),
        ("tasks", Task(id="bad", kind="\udc00", prompt=(), verifier=VerifierSpec(use="v")), "surrogate"),
        ("pairs", Pair(id="bad", kind="k\ud800"), "surrogate"),
        (
            "verdicts",
            Verdict(id="bad", trajectory_id="t", verifier="v", kind=VerdictKind.PASS, reward=float("inf")),
            "unstorable",
        ),
    ],
)
def test_a_row_that_cannot_be_stored_is_named_and_nothing_is_written(
    lake: Lake, table: str, bad: Base, reason: str
) -> None:
    good: dict[str, Any] = {
        "trajectories": make_trajectories(1),
        "tasks": make_tasks(1),
        "pairs": [Pair(id="ok", kind="k")],
        "verdicts": [Verdict(id="ok", trajectory_id="t", verifier="v", kind=VerdictKind.FAIL)],
    }
    with pytest.raises(RecordError, match=f"row 1 .*'bad'.*'{table}'") as caught:
        lake.append(STAMP, {table: [*good[table], bad]})
    assert caught.value.reason == reason
    assert lake.sql(f"select * from {table}").num_rows == 0


def test_a_given_arrow_table_is_held_to_the_declared_columns(lake: Lake) -> None:
    table = pa.table(
        {"id": ["a", "a", "b"], "item_id": ["x", "x", "y"], "model": ["m"] * 3, "vector": [[1.0], [1], []]}
    )
    assert lake.append(STAMP, {"embeddings": table}) == {"embeddings": 2}
    with pytest.raises(FaultError, match="unknown columns \\['more'\\]"):
        lake.append(STAMP, {"embeddings": table.append_column("more", [[1, 2, 3]])})
    with pytest.raises(FaultError, match="missing columns \\['model'\\]"):
        lake.append(STAMP, {"embeddings": table.drop_columns(["model"])})
    with pytest.raises(FaultError, match="there is no table 'nothing'"):
        lake.append(STAMP, {"nothing": table})
    with pytest.raises(FaultError, match="takes Task rows, not Trajectory"):
        lake.append(STAMP, {"tasks": make_trajectories(1)})


def test_columns_in_the_lake_have_the_declared_types(lake: Lake) -> None:
    for name, table in TABLES.items():
        found = lake.sql(f"describe {name}").to_pylist()
        assert [row["column_name"] for row in found] == table.schema.names
        described = [row["column_type"].replace('"', "") for row in found]
        assert described == [
            sql_type(field.type).replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE").replace('"', "")
            for field in table.schema
        ]


def test_the_files_are_parquet_in_the_lake(lake: Lake) -> None:
    lake.append(STAMP, {"tasks": make_tasks(3)})
    files = list((Path(lake.address) / "data" / "main" / "tasks").glob("*.parquet"))
    assert sum(pq.read_metadata(file).num_rows for file in files) == 3
