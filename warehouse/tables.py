"""The tables of the lake: one declared Arrow schema each, and the struct whose rows it holds.

A column is declared here or it does not exist: nothing is inferred from data, so `"007"` stays text and a
key first seen in the second row is an error instead of a loss. Text is large_string (64-bit offsets).
Every table starts with the same common columns; `id` and `parents` come from the row, the others are stamped
by the append.
"""

from typing import Any, NamedTuple

import pyarrow as pa

from schemas.rows import (
    DeadLetter,
    Embedding,
    Export,
    Pair,
    PlanMember,
    Request,
    Ruling,
    RunEvent,
    Signature,
    StepLabel,
    TokenSpan,
    Verdict,
)
from schemas.task import Task
from schemas.trajectory import Base, Trajectory

TEXT, INT, REAL, FLAG = pa.large_string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS = pa.list_(TEXT)

COMMON = pa.schema(
    [
        ("id", TEXT),
        ("run_id", TEXT),
        ("operator", TEXT),
        ("fingerprint", TEXT),
        ("parents", TEXTS),
        ("created_at", pa.timestamp("us", "UTC")),
    ]
)

PART = pa.struct([("type", TEXT), ("text", TEXT), ("media_type", TEXT), ("sha256", TEXT), ("uri", TEXT)])

TOOL_CALL = pa.struct(
    [
        ("id", TEXT),
        ("name", TEXT),
        ("arguments", TEXT),
        ("arguments_json", TEXT),
        ("state", TEXT),
        ("source_id", TEXT),
        ("id_generated", FLAG),
    ]
)

TOOL_RESULT = pa.struct(
    [
        ("call_id", TEXT),
        ("source_call_id", TEXT),
        ("name", TEXT),
        ("content", pa.list_(PART)),
        ("is_error", FLAG),
        ("paired_by", TEXT),
    ]
)

USAGE = pa.struct(
    [
        ("prompt_tokens", INT),
        ("completion_tokens", INT),
        ("cached_tokens", INT),
        ("reasoning_tokens", INT),
        ("cost_usd", REAL),
        ("latency_s", REAL),
    ]
)

STEP = pa.struct(
    [
        ("source", TEXT),
        ("content", pa.list_(PART)),
        ("reasoning", TEXT),
        ("tool_calls", pa.list_(TOOL_CALL)),
        ("results", pa.list_(TOOL_RESULT)),
        ("tools", INT),
        ("name", TEXT),
        ("timestamp", TEXT),
        ("model", TEXT),
        ("finish_reason", TEXT),
        ("usage", USAGE),
        ("weight", REAL),
        ("reward", REAL),
        ("source_inferred", FLAG),
        ("copied_context", FLAG),
        ("extra_json", TEXT),
    ]
)

PROVENANCE = pa.struct(
    [
        ("dataset", TEXT),
        ("revision", TEXT),
        ("split", TEXT),
        ("file", TEXT),
        ("record", TEXT),
        ("reader", TEXT),
        ("reader_version", TEXT),
        ("licence", TEXT),
        ("lost_fields", TEXTS),
        ("replaced_text", TEXTS),
    ]
)

OUTCOME = pa.struct([("success", FLAG), ("score", REAL), ("raw_json", TEXT)])

POLICY = pa.struct(
    [
        (name, TEXT)
        for name in (
            "teacher",
            "model",
            "revision",
            "harness",
            "harness_version",
            "strategy",
            "prompting",
            "role",
            "tier",
        )
    ]
)

SUBAGENT = pa.struct([("step", INT), ("trajectory_id", TEXT), ("call_id", TEXT)])
MESSAGE = pa.struct([("role", TEXT), ("content", TEXT)])
VERIFIER = pa.struct([("use", TEXT), ("spec_json", TEXT)])


class Table(NamedTuple):
    """A table: the struct of its rows and its Arrow schema, common columns first."""

    row: type[Base]
    schema: pa.Schema


def _table(row: type[Base], **columns: Any) -> Table:
    return Table(row, pa.schema([*COMMON, *columns.items()]))


TABLES: dict[str, Table] = {
    "tasks": _table(
        Task,
        kind=TEXT,
        prompt=pa.list_(MESSAGE),
        verifier=VERIFIER,
        gold=TEXT,
        tools_json=TEXT,
        environment_json=TEXT,
        difficulty=REAL,
        name=TEXT,
        provenance=PROVENANCE,
    ),
    "trajectories": _table(
        Trajectory,
        steps=pa.list_(STEP),
        schema_version=INT,
        task_id=TEXT,
        sample_index=INT,
        tool_sets=TEXTS,
        policy=POLICY,
        provenance=PROVENANCE,
        outcome=OUTCOME,
        action_space=TEXT,
        thinking=FLAG,
        branch_point=INT,
        subagents=pa.list_(SUBAGENT),
        truncated=FLAG,
        source_id=TEXT,
        extra_json=TEXT,
    ),
    "token_spans": _table(
        TokenSpan,
        trajectory_id=TEXT,
        step=INT,
        prompt_token_ids=pa.list_(INT),
        completion_token_ids=pa.list_(INT),
        completion_logprobs=pa.list_(REAL),
        logprobs_mode=TEXT,
        finish_reason=TEXT,
        raw_text=TEXT,
        request_json=TEXT,
        model=TEXT,
        revision=TEXT,
        engine=TEXT,
        tokenizer_sha256=TEXT,
        template_sha256=TEXT,
    ),
    "verdicts": _table(
        Verdict, trajectory_id=TEXT, verifier=TEXT, kind=TEXT, reward=REAL, trust=TEXT, evidence_json=TEXT
    ),
    "step_labels": _table(
        StepLabel,
        trajectory_id=TEXT,
        step=INT,
        label=TEXT,
        call_id=TEXT,
        weight=REAL,
        reward=REAL,
        reason=TEXT,
        evidence_json=TEXT,
    ),
    "decisions": _table(
        Ruling,
        item_id=TEXT,
        stage=TEXT,
        decision=TEXT,
        reason=TEXT,
        scope_hash=TEXT,
        score=REAL,
        evidence_json=TEXT,
        outputs=TEXTS,
    ),
    "dead_letters": _table(
        DeadLetter, item_id=TEXT, stage=TEXT, source=TEXT, position=TEXT, reason=TEXT, detail=TEXT, retry=FLAG
    ),
    "signatures": _table(Signature, item_id=TEXT, kind=TEXT, text_hash=TEXT, values=pa.large_binary()),
    "embeddings": _table(Embedding, item_id=TEXT, model=TEXT, vector=pa.list_(pa.float32())),
    "pairs": _table(
        Pair,
        kind=TEXT,
        task_id=TEXT,
        prompt_json=TEXT,
        chosen_json=TEXT,
        rejected_json=TEXT,
        tools_json=TEXT,
        evidence_json=TEXT,
    ),
    "exports": _table(
        Export,
        dataset=TEXT,
        format=TEXT,
        path=TEXT,
        snapshot=INT,
        rows=INT,
        manifest_sha256=TEXT,
        manifest_json=TEXT,
    ),
    "requests": _table(
        Request,
        item_id=TEXT,
        endpoint=TEXT,
        model=TEXT,
        status=TEXT,
        cached=FLAG,
        prompt_tokens=INT,
        completion_tokens=INT,
        cost_usd=REAL,
        latency_s=REAL,
        attempts=INT,
    ),
    "plans": _table(PlanMember, scope_hash=TEXT, item_id=TEXT),
    "runs": _table(
        RunEvent,
        event=TEXT,
        recipe=TEXT,
        recipe_json=TEXT,
        stage=TEXT,
        entry=INT,
        name=TEXT,
        scope=TEXT,
        scope_hash=TEXT,
        unit=TEXT,
        n_seen=INT,
        n_in=INT,
        n_inputs=INT,
        n_outputs=INT,
        seconds=REAL,
        status=TEXT,
        summary_json=TEXT,
    ),
}

STAMPED = ("run_id", "operator", "fingerprint", "created_at")


def row_columns(table: str) -> list[str]:
    """The columns of `table` that come from its rows, in declared order."""
    return [name for name in TABLES[table].schema.names if name not in STAMPED]


def sql_type(kind: pa.DataType) -> str:
    """The DuckDB type of a declared Arrow type."""
    if pa.types.is_struct(kind):
        return "STRUCT(" + ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in kind) + ")"
    if pa.types.is_list(kind):
        return sql_type(kind.value_type) + "[]"
    return _SQL_TYPES[str(kind)]


_SQL_TYPES = {
    "large_string": "VARCHAR",
    "large_binary": "BLOB",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "float": "FLOAT",
    "bool": "BOOLEAN",
    "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
}


def create_statement(table: str) -> str:
    """The CREATE TABLE statement of `table`, for migrations only."""
    columns = ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in TABLES[table].schema)
    return f'CREATE TABLE "{table}" ({columns})'
