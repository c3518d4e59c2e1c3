"""What a teacher is to the client: an address, a model, prices, limits, and a transport that sends."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from schemas.vocabulary import Kind
from tasks.client.request import Cause, ModelReply, ModelRequest
from tasks.plugin import Plugin


class AttemptFailed(Exception):
    """One attempt at a call failed; the client decides whether there is another.

    retry_after: seconds that the endpoint asked to wait, None when it did not say. sent_tokens: what was billed.
    """

    def __init__(
        self,
        cause: Cause,
        detail: str = "",
        *,
        retry_after: float | None = None,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.cause, self.detail, self.retry_after = cause, detail, retry_after
        self.prompt_tokens, self.completion_tokens = prompt_tokens, completion_tokens
        self.headers: Mapping[str, str] = headers or {}
        super().__init__(f"{cause}: {detail}")


class Answer(NamedTuple):
    """A transport's answer: the reply, and the headers in which an endpoint tells its limits."""

    reply: ModelReply
    headers: Mapping[str, str]


class Transport(Protocol):
    """Sends requests; lives on the client's event loop."""

    async def send(self, request: ModelRequest) -> Answer:
        """One attempt. Raises AttemptFailed, classified."""
        ...

    async def close(self) -> None:
        """Gives back sockets, threads, child processes."""
        ...


class Notes(Protocol):
    """A durable place for short notes under hex keys; what was noted first under a key stays."""

    def get(self, key: str) -> bytes | None:
        """The note, or None."""
        ...

    def record(self, key: str, data: bytes) -> bytes:
        """Notes `data` durably and gives the note that counts."""
        ...


class Price(NamedTuple):
    """US dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """US dollars for so many tokens."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


class Limits(NamedTuple):
    """How hard an endpoint may be pressed. rpm, tpm: requests and tokens per minute, None is no limit."""

    parallel: int = 32
    attempts: int = 4
    rpm: int | None = None
    tpm: int | None = None
    patience_s: float = 600.0
    adaptive: bool = True


class Teacher(Plugin, frozen=True, kw_only=True):
    """A policy that answers.

    name: what reports call it (default: the id and the model). temperature, top_p and max_tokens: sampling
    parameters of requests that name none. logprobs, token_ids: ask for them in every rollout, where the endpoint
    can give them.
    """

    kind: ClassVar[Kind] = Kind.TEACHER
    # Whether it can be held to a JSON schema (`response_format`).
    constrains: ClassVar[bool] = True

    name: str = ""
    temperature: float = 0.8
    top_p: float = 1.0
    max_tokens: int = 512
    logprobs: bool = False
    token_ids: bool = False

    def endpoint(self) -> str:
        """The address, as it stands in cache keys, accounts and messages; never with credentials."""
        raise NotImplementedError(f"{type(self).__name__} must define endpoint()")

    def model_id(self) -> str:
        """The model's name at that address."""
        raise NotImplementedError(f"{type(self).__name__} must define model_id()")

    def revision(self) -> str | None:
        """The weights' version where it is known beforehand; part of the cache key."""
        return None

    def price(self) -> Price:
        """What tokens cost."""
        return Price()

    def limits(self) -> Limits:
        """How hard the endpoint may be pressed."""
        return Limits()

    def extra(self) -> Mapping[str, Any]:
        """Fields added to every request's body; part of the cache key."""
        return {}

    def open(self, notes: Notes) -> Transport:
        """A transport; called once per process and teacher, on the client's event loop."""
        raise NotImplementedError(f"{type(self).__name__} must define open()")

    def label(self) -> str:
        """What reports call this teacher."""
        return self.name or f"{self.plugin_id()}:{self.model_id()}"

    def settle(self, request: ModelRequest) -> ModelRequest:
        """The request with this teacher's defaults filled in, so that its key says everything."""
        if request.max_tokens is not None and request.temperature is not None and request.top_p is not None:
            return request
        import msgspec

        return msgspec.structs.replace(
            request,
            max_tokens=self.max_tokens if request.max_tokens is None else request.max_tokens,
            temperature=self.temperature if request.temperature is None else request.temperature,
            top_p=self.top_p if request.top_p is None else request.top_p,
        )
