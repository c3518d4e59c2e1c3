"""Any endpoint that speaks the OpenAI chat-completions API: hosted, vLLM, llama.cpp, SGLang, Ollama and others."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tasks.client.http import Address, HttpTransport, key_of
from tasks.client.redact import check_key_env, check_url
from tasks.client.teacher import Limits, Notes, Price, Teacher, Transport


class OpenAI(Teacher, frozen=True, kw_only=True):
    """A model behind an OpenAI-compatible URL.

    base_url: up to and with "/v1"; credentials in it are refused. model: the name at that endpoint. key_env: the
    environment variable that holds the key, never the key itself. prompt_price, completion_price: US dollars per
    million tokens. rpm, tpm: requests and tokens per minute. timeout_s: seconds for a whole call. attempts: tries
    per call; a 429 uses none of them, but at most patience_s seconds. extra_body: further fields of every request.
    batch: through the provider's batch API, cheaper and within hours; looked at every poll_s seconds.
    send_seed: off for endpoints that refuse a seed. max_tokens_field: "max_completion_tokens" where the endpoint
    wants that.
    """

    inert: ClassVar[frozenset[str]] = frozenset(
        {"name", "key_env", "prompt_price", "completion_price", "parallel", "rpm", "tpm", "timeout_s", "attempts",
         "patience_s", "batch", "poll_s"}
    )  # fmt: skip

    base_url: str
    model: str
    key_env: str = ""
    prompt_price: float = 0.0
    completion_price: float = 0.0
    parallel: int = 64
    rpm: int | None = None
    tpm: int | None = None
    timeout_s: float = 120.0
    attempts: int = 4
    patience_s: float = 600.0
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    send_seed: bool = True
    max_tokens_field: str = "max_tokens"
    batch: bool = False
    poll_s: float = 30.0

    def __post_init__(self) -> None:
        """Refuses literal keys and credentials in the URL before anything is sent or stored."""
        check_url(self.base_url, "base_url")
        if self.key_env:
            check_key_env(self.key_env, "teacher 'openai'")

    def endpoint(self) -> str:
        """The base URL."""
        return self.base_url.rstrip("/")

    def model_id(self) -> str:
        """The model's name at the endpoint."""
        return self.model

    def price(self) -> Price:
        """As the recipe gives it."""
        return Price(self.prompt_price, self.completion_price)

    def limits(self) -> Limits:
        """As the recipe gives them; a provider's batch takes all that is asked at once."""
        if self.batch:
            return Limits(max(self.parallel, 50_000), self.attempts, None, None, self.patience_s, adaptive=False)
        return Limits(self.parallel, self.attempts, self.rpm, self.tpm, self.patience_s)

    def extra(self) -> Mapping[str, Any]:
        """Fields added to every body."""
        return self.extra_body

    def open(self, notes: Notes) -> Transport:
        """A pooled HTTP transport, or the provider's batches; a UserError when key_env is not set."""
        key_of(self.key_env)
        address = Address(
            base_url=self.base_url,
            model=self.model,
            key_env=self.key_env,
            timeout_s=self.timeout_s,
            parallel=self.parallel,
            headers=self.headers,
            extra_body=self.extra_body,
            send_seed=self.send_seed,
            max_tokens_field=self.max_tokens_field,
        )
        if self.batch:
            from tasks.client.batches import BatchEngine
            from tasks.rollout.engine.batcher import EngineTransport

            return EngineTransport(BatchEngine(address, notes, self.poll_s))
        return HttpTransport(address)
