"""The interlingua: one typed trajectory between many sources and many trainers.

It follows ATIF's step semantics (an agent step holds its tool calls and their results) and adds what
neither ATIF nor legacy ADP holds: an environment source, raw beside parsed arguments, the tools offered at
each step, typed provenance and outcome, inferred-versus-given flags, policy, branches and token spans.
All types are frozen; unknown fields are refused. Behaviour lives elsewhere.
"""

import msgspec

from schemas.vocabulary import ActionSpace, ArgumentState, PairedBy, PartType, Source

SCHEMA_VERSION = 1


class Base(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Frozen, keyword-only, unknown fields refused. Frozen rows form no cycles, so the collector need not see them:
    a batch of long trajectories is then built a third faster.
    """


class Part(Base, frozen=True, kw_only=True):
    """A piece of content: text inline, media by hash (`sha256`, hex), media type and URI."""

    type: PartType = PartType.TEXT
    text: str | None = None
    media_type: str | None = None
    sha256: str | None = None
    uri: str | None = None


class ToolCall(Base, frozen=True, kw_only=True):
    """One call. `id` is ours ("s<step>c<index>", unique in the trajectory), `source_id` the source's own.

    `arguments` is the raw text as given; `arguments_json` canonical JSON text of an object when `state` is parsed.
    """

    id: str
    name: str
    arguments: str = "{}"
    arguments_json: str | None = None
    state: ArgumentState = ArgumentState.PARSED
    source_id: str | None = None
    id_generated: bool = False


class ToolResult(Base, frozen=True, kw_only=True):
    """What came back. `call_id` is our id of the call in the same step, or None when nothing could be paired."""

    call_id: str | None = None
    source_call_id: str | None = None
    name: str | None = None
    content: tuple[Part, ...] = ()
    is_error: bool | None = None
    paired_by: PairedBy = PairedBy.ID


class Usage(Base, frozen=True, kw_only=True):
    """Tokens, money (US dollars) and time (seconds) of one model call; None where the source does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    latency_s: float | None = None


class Step(Base, frozen=True, kw_only=True):
    """One step. `tools` is an index into the trajectory's `tool_sets`, or None when no tools were offered.

    `weight` is a loss weight that the source gave (0 = masked), `reward` a reward that the source gave.
    """

    source: Source
    content: tuple[Part, ...] = ()
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tools: int | None = None
    name: str | None = None
    timestamp: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    weight: float | None = None
    reward: float | None = None
    source_inferred: bool = False
    copied_context: bool = False
    extra_json: str | None = None


class Provenance(Base, frozen=True, kw_only=True):
    """Where a record came from, and which of its fields the interlingua has no place for."""

    dataset: str | None = None
    revision: str | None = None
    split: str | None = None
    file: str | None = None
    record: str | None = None
    reader: str | None = None
    reader_version: str | None = None
    licence: str | None = None
    lost_fields: tuple[str, ...] = ()
    replaced_text: tuple[str, ...] = ()


class Outcome(Base, frozen=True, kw_only=True):
    """What the source itself says about success; apart from our own verdicts."""

    success: bool | None = None
    score: float | None = None
    raw_json: str | None = None


class Policy(Base, frozen=True, kw_only=True):
    """Who acted: model and revision, harness and version, strategy, prompting, role, tier."""

    teacher: str | None = None
    model: str | None = None
    revision: str | None = None
    harness: str | None = None
    harness_version: str | None = None
    strategy: str | None = None
    prompting: str | None = None
    role: str | None = None
    tier: str | None = None


class Subagent(Base, frozen=True, kw_only=True):
    """A link from a step (index) and, where known, a call to another trajectory's id."""

    step: int
    trajectory_id: str
    call_id: str | None = None


class Trajectory(Base, frozen=True, kw_only=True):
    """One run of one agent, whole.

    `parents` are the ids it was made from (task, earlier trajectory); `branch_point` the step index at which it
    leaves its parent trajectory. The id is a content hash, see `schemas.ids.trajectory_id`.
    """

    id: str
    steps: tuple[Step, ...]
    schema_version: int = SCHEMA_VERSION
    task_id: str | None = None
    parents: tuple[str, ...] = ()
    sample_index: int = 0
    tool_sets: tuple[str, ...] = ()
    policy: Policy = Policy()
    provenance: Provenance = Provenance()
    outcome: Outcome = Outcome()
    action_space: ActionSpace = ActionSpace.MESSAGE
    thinking: bool | None = None
    branch_point: int | None = None
    subagents: tuple[Subagent, ...] = ()
    truncated: bool = False
    source_id: str | None = None
    extra_json: str | None = None


def text_of(parts: tuple[Part, ...]) -> str:
    """The text parts joined as they stand; media parts contribute nothing."""
    return "".join(part.text or "" for part in parts if part.type is PartType.TEXT)


def text_part(text: str) -> tuple[Part, ...]:
    """`text` as content: one text part, or no part for the empty string."""
    return (Part(text=text),) if text else ()
