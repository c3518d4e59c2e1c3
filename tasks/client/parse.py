"""An OpenAI-style chat completion's bytes → a ModelReply, or the cause why they are none.

Everything an endpoint may send instead of an answer is told apart here: an HTML page, JSON cut in the middle,
an error object under status 200, no choices, null content, output that degenerated into white space. Nothing is
repaired: arguments of a call that was cut stay as they came.
"""

from typing import Any

import msgspec

from tasks.client.redact import redact
from tasks.client.request import Cause, ModelReply, ReplyCall
from tasks.client.teacher import AttemptFailed

# A constrained decoder that fell into white space goes on until max_tokens (vllm#38696); ordinary text that was
# cut does not end in this many blanks.
_BLANK_TAIL = 64


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: Any = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _TokenLogprob(msgspec.Struct):
    logprob: float | None = None


class _Logprobs(msgspec.Struct):
    content: list[_TokenLogprob] | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    prompt_token_ids: list[int] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Completion).decode


# What of a body is looked at for a failure's detail, bytes; a longer key than that does not exist.
_SNIPPED = 1 << 20


def snippet(body: bytes, limit: int = 300) -> str:
    """The beginning of a body for a failure's detail: readable whatever it is, redacted."""
    # Redacted whole, then cut: a key that the cut runs through would not be recognised any more.
    return redact(" ".join(body[:_SNIPPED].decode("utf-8", "replace").split()))[:limit]


def looks_html(body: bytes, content_type: str) -> bool:
    """Whether a body is a web page: a proxy's, a login's, a gateway's."""
    head = body[:200].lstrip().lower()
    return "text/html" in content_type.lower() or head.startswith((b"<!doctype", b"<html", b"<head", b"<body"))


def parse_completion(body: bytes, content_type: str = "application/json", max_tokens: int | None = None) -> ModelReply:
    """The reply in a 200 answer's body; raises AttemptFailed with the cause."""
    try:
        wire = _decode(body)
    except msgspec.ValidationError as error:
        raise AttemptFailed(Cause.BAD_JSON, f"not a chat completion: {error}; {snippet(body)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if looks_html(body, content_type):
            raise AttemptFailed(Cause.HTML_PAGE, snippet(body)) from None
        raise AttemptFailed(Cause.BAD_JSON, f"{error}; {snippet(body)}") from None
    usage = wire.usage or _Usage()
    prompt_tokens, completion_tokens = usage.prompt_tokens or 0, usage.completion_tokens or 0
    if not wire.choices:
        cause = Cause.SERVER_ERROR if wire.error else Cause.EMPTY_CHOICES
        raise AttemptFailed(cause, snippet(body), prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    choice = wire.choices[0]
    message = choice.message or _Message()
    text, calls = _text(message.content), _calls(message)
    if text is None and not calls and message.refusal is None:
        raise AttemptFailed(
            Cause.NULL_CONTENT,
            f"finish_reason={choice.finish_reason}; {snippet(body)}",
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
        )
    text = text or ""
    if usage.completion_tokens is None:
        # Servers without usage must not make the budget blind: the worst case is what the call was allowed.
        completion_tokens = len(choice.token_ids) if choice.token_ids else (max_tokens or len(text))
    if degenerated(text, choice.finish_reason):
        raise AttemptFailed(
            Cause.WHITESPACE,
            f"{len(text) - len(text.rstrip())} blanks at the end of {len(text)} characters",
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
        )
    prompt_details, completion_details = usage.prompt_tokens_details, usage.completion_tokens_details
    return ModelReply(
        text=text,
        reasoning=message.reasoning_content or message.reasoning,
        refusal=message.refusal,
        tool_calls=calls,
        finish_reason=choice.finish_reason,
        engine=wire.system_fingerprint,
        model=wire.model or "",
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=prompt_details.cached_tokens if prompt_details else None,
        reasoning_tokens=completion_details.reasoning_tokens if completion_details else None,
        prompt_token_ids=tuple(wire.prompt_token_ids or ()),
        completion_token_ids=tuple(choice.token_ids or ()),
        logprobs=_logprobs(choice.logprobs),
    )


def degenerated(text: str, finish_reason: str | None) -> bool:
    """Whether an answer that ran into its token limit ends in nothing but white space."""
    return finish_reason == "length" and len(text) - len(text.rstrip()) >= _BLANK_TAIL


def _text(content: Any) -> str | None:
    """Content as text: a string, null, or a list of parts of which the text ones count."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        found = [
            part if isinstance(part, str) else part.get("text") for part in content if isinstance(part, str | dict)
        ]
        texts = [text for text in found if isinstance(text, str)]
        return "".join(texts) if texts else None
    raise AttemptFailed(Cause.BAD_JSON, f"content is {type(content).__name__}")


def _calls(message: _Message) -> tuple[ReplyCall, ...]:
    calls = []
    for call in message.tool_calls or ():
        function = call.function or _Function()
        arguments = function.arguments
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else msgspec.json.encode(arguments).decode()
        calls.append(ReplyCall(id=call.id, name=function.name or "", arguments=arguments))
    return tuple(calls)


def _logprobs(wire: _Logprobs | None) -> tuple[float, ...] | None:
    if wire is None or wire.content is None:
        return None
    values = [token.logprob for token in wire.content]
    return None if any(value is None for value in values) else tuple(value for value in values if value is not None)
