"""The hot path to an OpenAI-compatible endpoint: one pooled aiohttp session, bytes in, bytes out.

The vendor's SDK spends several times the processor time of the request itself on each call; here it is used only
for what is not hot (types in tests, batches, files).
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from schemas.errors import UserError
from tasks.client.limits import retry_after
from tasks.client.parse import looks_html, parse_completion, snippet
from tasks.client.redact import mark_env, redact
from tasks.client.request import Cause, ModelRequest
from tasks.client.teacher import Answer, AttemptFailed

if TYPE_CHECKING:
    import aiohttp

# An answer beyond this is no chat completion; reading on would only fill the memory.
MAX_BODY = 64 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_QUOTA_CODES = ("insufficient_quota", "billing_hard_limit_reached", "account_deactivated")


class Address(NamedTuple):
    """Where and how to send. headers: besides the key; key_env: "" for an endpoint without one."""

    base_url: str
    model: str
    key_env: str = ""
    timeout_s: float = 120.0
    parallel: int = 32
    headers: Mapping[str, str] = {}
    extra_body: Mapping[str, Any] = {}
    send_seed: bool = True
    max_tokens_field: str = "max_tokens"


def key_of(key_env: str) -> str:
    """The key in the environment; a UserError that says what to do when it is missing. "" for no key_env."""
    if not key_env:
        return ""
    mark_env(key_env)
    value = os.environ.get(key_env, "").strip()
    if not value:
        raise UserError(
            f"The environment variable {key_env} is not set.",
            "It is named as key_env in the recipe and holds the endpoint's key.",
            f"export {key_env}=...",
        )
    return value


def body_of(request: ModelRequest, address: Address) -> dict[str, Any]:
    """The chat-completions body of a settled request."""
    body: dict[str, Any] = {"model": address.model, "messages": request.messages}
    if request.max_tokens is not None:
        body[address.max_tokens_field] = request.max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None and request.top_p != 1.0:
        body["top_p"] = request.top_p
    if request.stop:
        body["stop"] = request.stop
    if request.seed is not None and address.send_seed:
        # Some servers keep seeds in 32 bits.
        body["seed"] = request.seed & 0x7FFFFFFF
    if request.tools_json is not None:
        body["tools"] = msgspec.Raw(request.tools_json.encode())
    if request.tool_choice is not None:
        body["tool_choice"] = request.tool_choice
    if request.response_format is not None:
        body["response_format"] = request.response_format
    if request.logprobs:
        body["logprobs"] = True
    if request.token_ids:
        body["return_token_ids"] = True
    body.update(address.extra_body)
    return body


class HttpTransport:
    """Sends to one endpoint. Made on the client's event loop; the key is read once and kept out of every text."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._url = address.base_url.rstrip("/") + "/chat/completions"
        key = key_of(address.key_env)
        self._headers = {"Content-Type": "application/json", **address.headers}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session: aiohttp.ClientSession | None = None
        # The session adds its own when none is given, at a cost per request.
        self._post: Callable[..., Any] | None = None

    def _open(self) -> Callable[..., Any]:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.address.parallel, ttl_dns_cache=300, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=self.address.timeout_s, sock_connect=min(15.0, self.address.timeout_s)),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**17,
        )
        self._post = self._session.post
        return self._post

    async def send(self, request: ModelRequest) -> Answer:
        """See Transport."""
        import aiohttp

        post = self._post or self._open()
        try:
            data = _encode(body_of(request, self.address))
        except (UnicodeEncodeError, TypeError, msgspec.MsgspecError) as error:
            raise AttemptFailed(Cause.UNSENDABLE, str(error)) from None
        try:
            # A redirect would carry the key to another host.
            async with post(self._url, data=data, allow_redirects=False) as response:
                status, headers = response.status, response.headers
                if (response.content_length or 0) > MAX_BODY:
                    raise AttemptFailed(Cause.TOO_LARGE, f"{response.content_length} bytes announced")
                body = await self._read(response)
        except TimeoutError:
            raise AttemptFailed(Cause.TIMEOUT, f"no answer within {self.address.timeout_s:g} s") from None
        except aiohttp.ClientError as error:
            raise AttemptFailed(Cause.CONNECTION, redact(f"{type(error).__name__}: {error}")) from None
        except OSError as error:
            raise AttemptFailed(Cause.CONNECTION, redact(f"{type(error).__name__}: {error}")) from None
        if status == 200:
            return Answer(parse_completion(body, headers.get("Content-Type", ""), request.max_tokens), headers)
        raise classify(status, headers, body)

    async def _read(self, response: "aiohttp.ClientResponse") -> bytes:
        if response.content_length is not None:
            return await response.read()
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_BODY:
                raise AttemptFailed(Cause.TOO_LARGE, f"over {MAX_BODY} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    async def close(self) -> None:
        """See Transport."""
        if self._session is not None:
            await self._session.close()
            # One turn of the loop lets closed transports go, so that no descriptor outlives the client.
            await asyncio.sleep(0)
            self._session = self._post = None


def classify(status: int, headers: Mapping[str, str], body: bytes) -> AttemptFailed:
    """The failure behind a status other than 200."""
    detail = f"HTTP {status}: {snippet(body)}"
    if status == 429:
        low = body[:4000].lower()
        if any(code.encode() in low for code in _QUOTA_CODES):
            return AttemptFailed(Cause.QUOTA, detail, headers=headers)
        return AttemptFailed(Cause.RATE_LIMITED, detail, retry_after=retry_after(headers), headers=headers)
    if status in (401, 403):
        if looks_html(body, headers.get("Content-Type", "")):
            # A firewall's page, not the endpoint's word about the key.
            return AttemptFailed(Cause.HTML_PAGE, detail, headers=headers)
        return AttemptFailed(Cause.AUTH, detail, headers=headers)
    if status == 402:
        return AttemptFailed(Cause.QUOTA, detail, headers=headers)
    if status in (408, 409, 425) or status >= 500:
        # 503 with Retry-After is an endpoint that asks for time, as 429 does.
        wait = retry_after(headers)
        if status == 503 and wait is not None:
            return AttemptFailed(Cause.RATE_LIMITED, detail, retry_after=wait, headers=headers)
        return AttemptFailed(Cause.SERVER_ERROR, detail, retry_after=wait, headers=headers)
    if looks_html(body, headers.get("Content-Type", "")):
        return AttemptFailed(Cause.HTML_PAGE, detail, headers=headers)
    return AttemptFailed(Cause.REJECTED, detail, headers=headers)
