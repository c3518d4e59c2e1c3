"""Chat messages to steps: the way of every format that is a list of turns.

An agent's turn, its calls and the results that follow at once become one step. Where calls are text, the
dialect's decoders take them out of it, and turns of the user that carry what the environment said (`observation`
patterns) become results, marked as inferred. A result without a call before it stays an environment step.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from schemas.errors import RecordError, UserError
from schemas.trajectory import Base, Part, Step, ToolResult
from schemas.vocabulary import PairedBy, Source
from tasks.normalize.content import parts_of
from tasks.normalize.decoder import code_text, function_xml, hermes, react
from tasks.normalize.decoder.found import Decoded, Found, compact
from tasks.normalize.decoder.openai_calls import calls_of
from tasks.normalize.draft import SOURCES, Draft, pair, weight_of

Decoder = Callable[[str], Decoded | None]
_REASONING = ("reasoning_content", "reasoning", "thinking")
_MESSAGE = frozenset(
    {"role", "content", "name", "tool_calls", "function_call", "tool_call_id", "timestamp", "model", "finish_reason"}
    | {*_REASONING, "is_error"}
)
_NO_PARTS: tuple[Part, ...] = ()


class Dialect(Base, frozen=True):
    """How a list of turns is written.

    calls: encodings of calls in agent text, tried in order: hermes, function_xml, react[:KEYWORD],
    execute[:TAG], fenced[:LANGUAGE], code[:LANGUAGE]. observation: patterns (regular expressions, matched at the
    start) of user turns that are the environment's; the match is cut off, a group `name` is the tool's name, a group
    `content` the text itself. roles: further role names → source. role_key, content_key: the turn's fields.
    weight_key: the field with the loss weight. think: whether `<think>…</think>` at the start is the reasoning.
    """

    calls: tuple[str, ...] = ()
    observation: tuple[str, ...] = ()
    roles: dict[str, str] = {}
    role_key: str = "role"
    content_key: str = "content"
    weight_key: str = "weight"
    think: bool = False


_FAMILIES: dict[str, tuple[str, Callable[[str], Decoder]]] = {
    "hermes": ("", lambda _: hermes.decode),
    "function_xml": ("", lambda _: function_xml.decode),
    "react": ("Action", lambda word: lambda text: react.decode(text, word)),
    "execute": ("execute", lambda tag: lambda text: code_text.decode_tag(text, tag)),
    "fenced": ("bash", lambda language: lambda text: code_text.decode_fenced(text, language)),
    "code": ("python", lambda language: lambda text: code_text.decode_whole(text, language)),
}


def decoder_of(name: str) -> Decoder:
    """The decoder that "FAMILY" or "FAMILY:ARGUMENT" names; UserError for an unknown one."""
    family, _, argument = name.partition(":")
    if family not in _FAMILIES:
        raise UserError(f"Unknown encoding of calls '{name}'.", f"Known: {', '.join(_FAMILIES)}.")
    default, make = _FAMILIES[family]
    return make(argument or default)


class Reader:
    """Reads turns of one dialect; built once per dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.decoders = [decoder_of(name) for name in dialect.calls]
        self.hermes = any(name == "hermes" for name in dialect.calls)
        try:
            self.observations = [re.compile(pattern, re.DOTALL) for pattern in dialect.observation]
            self.roles = {**SOURCES, **{name: Source(source) for name, source in dialect.roles.items()}}
        except re.error as error:
            raise UserError(f"An observation pattern is no regular expression: {error}.") from error
        except ValueError as error:
            raise UserError(f"A role maps to no source: {error}.", f"Known: {', '.join(Source)}.") from error
        self.known = _MESSAGE | {dialect.role_key, dialect.content_key, dialect.weight_key}

    def read(self, messages: Any, draft: Draft, tools: int | None = None) -> None:
        """Appends the steps of `messages` to `draft`; `tools` is the tool set that the agent was offered."""
        if not isinstance(messages, list):
            raise RecordError("wrong_type", f"the messages are {type(messages).__name__}, not a list")
        index = 0
        while index < len(messages):
            message = messages[index]
            source = self._source(message, index)
            if source is Source.AGENT:
                index = self._agent(messages, index, draft, tools)
            elif source is Source.ENVIRONMENT:
                index = self._environment(messages, index, draft)
            else:
                self._turn(message, source, index, draft)
                index += 1

    def _source(self, message: Any, index: int) -> Source:
        if type(message) is not dict:
            raise RecordError("wrong_type", f"message {index} is {type(message).__name__}, not an object")
        role = message.get(self.dialect.role_key)
        source = self.roles.get(role) if isinstance(role, str) else None
        if source is None:
            raise RecordError("unknown_role", f"message {index} has the {self.dialect.role_key} {str(role)[:80]!r}")
        return source

    def _turn(self, message: dict[str, Any], source: Source, index: int, draft: Draft) -> None:
        content = message.get(self.dialect.content_key)
        inferred = False
        if source is Source.USER and self.observations and type(content) is str and draft.steps:
            seen = self._observed(content)
            if seen is not None:
                content, inferred, source = seen[0], True, Source.ENVIRONMENT
        if source is Source.USER and message.get("name") == "environment":
            source = Source.ENVIRONMENT
        parts = parts_of(content, draft, "messages[].content")
        if len(message) == 2 and message.get("role") != "developer":
            draft.steps.append(Step(source=source, content=parts, source_inferred=inferred))
            return
        extra = self._extra(message, draft)
        if message.get("role") == "developer":
            extra["role"] = "developer"
        draft.steps.append(
            Step(
                source=source,
                content=parts,
                name=_text(message, "name"),
                timestamp=_stamp(message.get("timestamp")),
                weight=weight_of(message.get(self.dialect.weight_key)),
                source_inferred=inferred,
                extra_json=compact(extra) if extra else None,
            )
        )

    def _agent(self, messages: list[Any], index: int, draft: Draft, tools: int | None) -> int:
        message = messages[index]
        content = message.get(self.dialect.content_key)
        found: tuple[Found, ...] = ()
        plain = len(message) == 2
        reasoning = None if plain else next((m for k in _REASONING if isinstance(m := message.get(k), str)), None)
        if not plain:
            found = calls_of(message)
        if type(content) is str:
            if self.dialect.think and reasoning is None:
                reasoning, content = split_think(content)
            if not found:
                content, found = self._decode(content)
        parts = parts_of(content, draft, "messages[].content")
        calls = draft.calls(found) if found else ()
        after = index + 1
        results: list[ToolResult] = []
        while calls and after < len(messages):
            more = self._results(messages[after], after, draft)
            if more is None:
                break
            results.extend(more)
            after += 1
        if reasoning is not None:
            draft.thinking = True
        extra = {} if plain else self._extra(message, draft)
        draft.steps.append(
            Step(
                source=Source.AGENT,
                content=parts,
                reasoning=reasoning,
                tool_calls=calls,
                results=pair(calls, results) if results else (),
                tools=tools,
                name=None if plain else _text(message, "name"),
                timestamp=None if plain else _stamp(message.get("timestamp")),
                model=None if plain else _text(message, "model"),
                finish_reason=None if plain else _text(message, "finish_reason"),
                weight=None if plain else weight_of(message.get(self.dialect.weight_key)),
                extra_json=compact(extra) if extra else None,
            )
        )
        return after

    def _decode(self, content: str) -> tuple[str | list[str] | None, tuple[Found, ...]]:
        for decoder in self.decoders:
            decoded = decoder(content)
            if decoded is not None:
                before, after = decoded.before.rstrip(), decoded.after.strip()
                if after:
                    return [text for text in (before, after) if text], decoded.calls
                return before or None, decoded.calls
        return content, ()

    def _environment(self, messages: list[Any], index: int, draft: Draft) -> int:
        message = messages[index]
        if message.get(self.dialect.role_key) == "environment" and "tool_call_id" not in message:
            self._turn(message, Source.ENVIRONMENT, index, draft)
            return index + 1
        results: list[ToolResult] = []
        while index < len(messages) and self._source(messages[index], index) is Source.ENVIRONMENT:
            results.extend(self._results(messages[index], index, draft) or [])
            index += 1
        draft.steps.append(Step(source=Source.ENVIRONMENT, results=tuple(results)))
        return index

    def _results(self, message: Any, index: int, draft: Draft) -> list[ToolResult] | None:
        """The results in a turn that follows an agent's calls; None when it is no such turn."""
        source = self._source(message, index)
        content = message.get(self.dialect.content_key)
        if source is Source.ENVIRONMENT:
            if len(message) > 2:
                draft.lose_rest(message, self.known, "messages[]")
            error = message.get("is_error")
            bodies: list[Any] = [content]
            if self.hermes and isinstance(content, str):
                bodies = list(hermes.responses(content) or [content])
            return [
                ToolResult(
                    source_call_id=_text(message, "tool_call_id"),
                    name=_text(message, "name"),
                    content=parts_of(body, draft, "messages[].content"),
                    is_error=error if isinstance(error, bool) else None,
                    paired_by=PairedBy.NONE,
                )
                for body in bodies
            ]
        if source is not Source.USER or type(content) is not str:
            return None
        if self.hermes and (bodies_of := hermes.responses(content)):
            return [ToolResult(content=(Part(text=body),), paired_by=PairedBy.NONE) for body in bodies_of]
        seen = self._observed(content)
        if seen is None:
            return None
        if len(message) > 2:
            draft.lose_rest(message, self.known, "messages[]")
        text, name = seen
        return [ToolResult(name=name, content=(Part(text=text),) if text else _NO_PARTS, paired_by=PairedBy.NONE)]

    def _observed(self, content: str) -> tuple[str, str | None] | None:
        for pattern in self.observations:
            match = pattern.match(content)
            if match:
                groups = match.groupdict()
                text = groups.get("content")
                return (content[match.end() :] if text is None else text), groups.get("name")
        return None

    def _extra(self, message: dict[str, Any], draft: Draft) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        for key, value in message.items():
            if key in self.known or value is None:
                continue
            if isinstance(value, str | int | float):
                extra[key] = value
            else:
                draft.lose(f"messages[].{key}")
        return extra


@lru_cache(maxsize=32)
def _reader(key: bytes) -> Reader:
    import msgspec

    return Reader(msgspec.json.decode(key, type=Dialect))


def reader_of(dialect: Dialect) -> Reader:
    """The reader of a dialect, built once."""
    import msgspec

    return _reader(msgspec.json.encode(dialect))


def split_think(text: str) -> tuple[str | None, str]:
    """The reasoning in `<think>…</think>` at the start of `text`, and the rest; None when it does not start so."""
    lead = text.lstrip()
    if not lead.startswith("<think>"):
        return None, text
    inner, closed, rest = lead[len("<think>") :].partition("</think>")
    return (inner.strip("\n"), rest.lstrip("\n")) if closed else (None, text)


def _text(message: dict[str, Any], key: str) -> str | None:
    value = message.get(key)
    return value if isinstance(value, str) else None


def _stamp(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
