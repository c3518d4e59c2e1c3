"""Rows of the side tables. Run, operator, fingerprint and time are stamped by the warehouse on append."""

from schemas.trajectory import Base
from schemas.vocabulary import Decision, Trust, VerdictKind


class Verdict(Base, frozen=True, kw_only=True):
    """One per (trajectory, verifier). `reward` is finite and in [0, 1], None unless kind is a judgement."""

    id: str
    trajectory_id: str
    verifier: str
    kind: VerdictKind
    reward: float | None = None
    trust: Trust = Trust.OUTSIDE
    evidence_json: str = "{}"
    parents: tuple[str, ...] = ()


class StepLabel(Base, frozen=True, kw_only=True):
    """A weight, reward or process label of one step; with `call_id`, of one tool call in it."""

    id: str
    trajectory_id: str
    step: int
    label: str
    call_id: str | None = None
    weight: float | None = None
    reward: float | None = None
    reason: str = ""
    evidence_json: str = "{}"
    parents: tuple[str, ...] = ()


class TokenSpan(Base, frozen=True, kw_only=True):
    """Token-faithful record of one model call: exactly what was sent and sampled, before any parsing."""

    id: str
    trajectory_id: str
    step: int
    prompt_token_ids: tuple[int, ...] = ()
    completion_token_ids: tuple[int, ...] = ()
    completion_logprobs: tuple[float, ...] | None = None
    logprobs_mode: str | None = None
    finish_reason: str | None = None
    raw_text: str = ""
    request_json: str = "{}"
    model: str | None = None
    revision: str | None = None
    engine: str | None = None
    tokenizer_sha256: str | None = None
    template_sha256: str | None = None
    parents: tuple[str, ...] = ()


class Ruling(Base, frozen=True, kw_only=True):
    """A row of the decisions ledger: what an operator decided about one planned item, why, and what it became.

    `outputs` are the ids that go on (the item itself when unchanged); empty for a drop. `scope_hash` is "" for
    scope item, else the hash of the sorted ids that the decision depended on.
    """

    id: str
    item_id: str
    stage: str
    decision: Decision
    reason: str
    scope_hash: str = ""
    score: float | None = None
    evidence_json: str = "{}"
    outputs: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()


class DeadLetter(Base, frozen=True, kw_only=True):
    """A record or item that could not be processed. `retry` marks those that the next run tries again."""

    id: str
    item_id: str
    stage: str
    source: str
    position: str
    reason: str
    detail: str = ""
    retry: bool = False
    parents: tuple[str, ...] = ()


class Signature(Base, frozen=True, kw_only=True):
    """A similarity signature of one item: `kind` (exact, minhash, …) names method and parameters."""

    id: str
    item_id: str
    kind: str
    text_hash: str = ""
    values: bytes = b""
    parents: tuple[str, ...] = ()


class Embedding(Base, frozen=True, kw_only=True):
    """An embedding of one item by `model` (name and revision)."""

    id: str
    item_id: str
    model: str
    vector: tuple[float, ...] = ()
    parents: tuple[str, ...] = ()


class Pair(Base, frozen=True, kw_only=True):
    """A row of another grain, such as a preference: prompt, chosen and rejected as JSON text of messages."""

    id: str
    kind: str
    task_id: str | None = None
    prompt_json: str = "[]"
    chosen_json: str = "[]"
    rejected_json: str = "[]"
    tools_json: str | None = None
    evidence_json: str = "{}"
    parents: tuple[str, ...] = ()


class Export(Base, frozen=True, kw_only=True):
    """One written set of shards; run, snapshot and time stand here and never in the files themselves."""

    id: str
    dataset: str
    format: str
    path: str
    snapshot: int
    rows: int
    manifest_sha256: str
    manifest_json: str
    parents: tuple[str, ...] = ()


class Request(Base, frozen=True, kw_only=True):
    """Accounting of one model call (no prompt, no answer, no key): tokens, US dollars, seconds."""

    id: str
    item_id: str
    endpoint: str
    model: str
    status: str
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0
    attempts: int = 1
    parents: tuple[str, ...] = ()


class PlanMember(Base, frozen=True, kw_only=True):
    """Membership of a plan: the items that one operator planned, named by the hash of their ids.

    The id is content_id("plan", scope_hash, item_id); a rerun with the same items adds nothing.
    """

    id: str
    scope_hash: str
    item_id: str
    parents: tuple[str, ...] = ()


class RunEvent(Base, frozen=True, kw_only=True):
    """What a run did: it started, one operator of it ended, it finished. The only rows that a rerun adds.

    event: started | operator | finished | failed. `scope_hash` names the plan (see PlanMember); n_seen counts the
    inputs looked at, eligible or not; n_inputs/n_outputs are the fan-out's two sides; seconds is wall time.
    """

    id: str
    event: str
    recipe: str
    recipe_json: str = "{}"
    stage: str = ""
    entry: int = 0
    name: str = ""
    scope: str = "item"
    scope_hash: str = ""
    unit: str = ""
    n_seen: int = 0
    n_in: int = 0
    n_inputs: int = 0
    n_outputs: int = 0
    seconds: float = 0.0
    status: str = ""
    summary_json: str = "{}"
    parents: tuple[str, ...] = ()
