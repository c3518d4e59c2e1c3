"""What is asked of a model, what comes back, and what a failed call leaves behind.

The key of a call is the hash of everything that shapes its answer: endpoint, model, revision, messages, tools,
every sampling parameter, seed and sample index. Who asks (item, run, prices, time-outs) is not in it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from schemas.errors import GristmillError
from schemas.ids import content_id
from schemas.rows import Request
from schemas.trajectory import Base, Usage

KEY_VERSION = 1

_encode = msgspec.json.Encoder(order="deterministic").encode


class Cause(StrEnum):
    """Why a call failed, decided where the answer comes in."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    RATE_LIMITED = "rate_limited"
    QUOTA = "quota"
    AUTH = "auth"
    REJECTED = "rejected"
    SERVER_ERROR = "server_error"
    HTML_PAGE = "html_page"
    BAD_JSON = "bad_json"
    EMPTY_CHOICES = "empty_choices"
    NULL_CONTENT = "null_content"
    WHITESPACE = "whitespace"
    TOO_LARGE = "too_large"
    ENGINE = "engine"
    UNSENDABLE = "unsendable"
    BUDGET = "budget"
    BREAKER_OPEN = "breaker_open"


# The call was never really tried, or the account behind it is the trouble: the item waits for the next run.
PENDING_CAUSES = frozenset({Cause.BUDGET, Cause.BREAKER_OPEN, Cause.RATE_LIMITED, Cause.QUOTA, Cause.AUTH})

# Trouble of the endpoint, which the circuit breaker watches; a rejected request says nothing about the next one.
ENDPOINT_CAUSES = frozenset(
    {
        Cause.TIMEOUT,
        Cause.CONNECTION,
        Cause.QUOTA,
        Cause.AUTH,
        Cause.SERVER_ERROR,
        Cause.HTML_PAGE,
        Cause.BAD_JSON,
        Cause.EMPTY_CHOICES,
        Cause.ENGINE,
    }
)

# Causes that another attempt may mend.
RETRIED_CAUSES = frozenset(
    {
        Cause.TIMEOUT,
        Cause.CONNECTION,
        Cause.SERVER_ERROR,
        Cause.HTML_PAGE,
        Cause.BAD_JSON,
        Cause.EMPTY_CHOICES,
        Cause.NULL_CONTENT,
        Cause.WHITESPACE,
        Cause.ENGINE,
    }
)


class ModelRequest(Base, frozen=True):
    """One call. Sampling parameters left None take the teacher's own.

    messages: OpenAI-style dicts. tools_json: a JSON list of OpenAI-style tool schemas. response_format and
    tool_choice: as the OpenAI chat API takes them. seed: 63 bits. sample_index: which of several answers to the
    same prompt this is. item_id: whose call it is, for accounts and failure tables only.
    """

    messages: Sequence[Mapping[str, Any]]
    item_id: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    sample_index: int = 0
    tools_json: str | None = None
    tool_choice: Any = None
    response_format: Mapping[str, Any] | None = None
    logprobs: bool = False
    token_ids: bool = False

    def key(self, endpoint: str, model: str, revision: str | None, extra: Mapping[str, Any]) -> str:
        """The cache key, 32 hex digits; `extra` is what the teacher adds to every body.

        Raises UnicodeEncodeError for text that no endpoint could be sent (a lone surrogate).
        """
        shape = (
            KEY_VERSION, endpoint, model, revision, self.messages, self.max_tokens, self.temperature, self.top_p,
            self.stop, self.seed, self.sample_index, self.tools_json, self.tool_choice, self.response_format,
            self.logprobs, self.token_ids, extra,
        )  # fmt: skip
        return hashlib.blake2b(_encode(shape), digest_size=16).hexdigest()


class ReplyCall(Base, frozen=True):
    """A tool call as the model wrote it: `arguments` is raw text, possibly cut or not JSON."""

    name: str
    arguments: str
    id: str | None = None


class ModelReply(Base, frozen=True):
    """One answer. Everything but `cached` is recorded, so that a replay equals the first time.

    logprobs: natural logarithms, one per completion token, before temperature when logprobs_mode is "raw".
    cost_usd and latency_s (seconds) are those of the call that was paid.
    """

    text: str
    key: str = ""
    endpoint: str = ""
    model: str = ""
    revision: str | None = None
    engine: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ReplyCall, ...] = ()
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_token_ids: tuple[int, ...] = ()
    completion_token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    logprobs_mode: str | None = None
    tokenizer_sha256: str | None = None
    template_sha256: str | None = None
    raw_text: str | None = None
    cost_usd: float = 0.0
    latency_s: float = 0.0
    attempts: int = 1
    cached: bool = False

    def usage(self) -> Usage:
        """The interlingua's usage of this call."""
        return Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=self.cached_tokens,
            reasoning_tokens=self.reasoning_tokens,
            cost_usd=self.cost_usd,
            latency_s=round(self.latency_s, 4),
        )

    def account(self, item_id: str) -> Request:
        """The accounting row. Its id is the call's alone, so that an answer used twice is paid once in the sums."""
        return Request(
            id=content_id("request", self.key),
            item_id=item_id,
            endpoint=self.endpoint,
            model=self.model,
            status="ok",
            cached=self.cached,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost_usd=self.cost_usd,
            latency_s=round(self.latency_s, 4),
            attempts=self.attempts,
        )


class CallFailure(Base, frozen=True):
    """A call that gave no answer: whose, where, the first cause, the last one, and how often it was tried.

    Never cached. `detail` is redacted. Tokens and cost are those of attempts that were billed without giving an
    answer of use.
    """

    item_id: str
    endpoint: str
    model: str
    cause: Cause
    first_cause: Cause
    detail: str = ""
    attempts: int = 0
    key: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def pending(self) -> bool:
        """Whether the item waits for the next run (True) or is a dead letter that the next run retries (False)."""
        return self.cause in PENDING_CAUSES

    def describe(self) -> str:
        """One line for people: where, how often, first and last cause."""
        last = "" if self.cause == self.first_cause else f", last {self.cause}"
        return f"{self.endpoint} {self.model}: {self.first_cause}{last} after {self.attempts} attempts. {self.detail}"

    def account(self) -> Request:
        """The accounting row of the failed call."""
        return Request(
            id=content_id("request", self.key, self.cause),
            item_id=self.item_id,
            endpoint=self.endpoint,
            model=self.model,
            status=self.cause.value,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost_usd=self.cost_usd,
            attempts=self.attempts,
        )


class CallFailed(GristmillError):
    """Raised by `complete`; carries the record."""

    def __init__(self, failure: CallFailure) -> None:
        self.failure = failure
        super().__init__(failure.describe())
