"""Chat messages to steps: the way of every format that is a list of turns.

An agent's turn, its calls and the results that follow at once become one step. Where calls are text, the
dialect's decoders take them out of it, and turns of the user that carry what the environment said become
results, marked as inferred. A result without a call before it stays an environment step.
"""

from typing import Any

from schemas.errors import RecordError, UserError
from schemas.trajectory import Part, Step, ToolResult
from schemas.vocabulary import PairedBy, Source
from tasks.normalize.content import parts_of
from tasks.normalize.decoder import hermes
from tasks.normalize.decoder.found import Decoded, Found, compact
from tasks.normalize.decoder.openai_calls import calls_of
from tasks.normalize.dialect import Dialect, Observed, decoder_of, observation_of, observed
from tasks.normalize.draft import SOURCES, Draft, pair, weight_of
from tasks.normalize.usage import number, unknown_usage, usage_of

_REASONING = ("reasoning_content", "reasoning", "thinking")
_TEXTS = ("name", "model", "finish_reason", "tool_call_id", *_REASONING)
_TURN = frozenset({"name", "timestamp", "reward", "copied_context"})
_AGENT = _TURN | {"model", "finish_reason", "tool_calls", "function_call", "usage", *_REASONING}
_RESULT = frozenset({"name", "tool_call_id", "is_error"})
_CALL = frozenset({"id", "type", "index", "function", "custom", "name", "arguments"})
_FUNCTION = frozenset({"name", "arguments", "input", "id", "type"})
_WHERE = "messages[].content"


class Reader:
    """Reads turns of one dialect; built once per dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.decoders = [decoder_of(name) for name in dialect.calls]
        self.hermes = "hermes" in dialect.calls
        self.observations = [observation_of(pattern) for pattern in dialect.observation if pattern]
        self.next_observes = "" in dialect.observation
        try:
            self.roles = {**SOURCES, **{name: Source(source) for name, source in dialect.roles.items()}}
        except ValueError as error:
            raise UserError(f"A role maps to no source: {error}.", f"Known: {', '.join(Source)}.") from error
        self.role_key, self.content_key = dialect.role_key, dialect.content_key
        self.own = frozenset({dialect.role_key, dialect.content_key, dialect.weight_key, *dialect.more_content})

    def read(self, messages: Any, draft: Draft, tools: int | None = None, where: list[int] | None = None) -> None:
        """Appends the steps of `messages` to `draft`; `tools` is the tool set that the agent was offered.

        where: filled with the index of the step that each message went into.
        """
        if not isinstance(messages, list):
            raise RecordError("wrong_type", f"the messages are {type(messages).__name__}, not a list")
        count, content_key, index = len(messages), self.content_key, 0
        while index < count:
            message = messages[index]
            source = self._source(message, index)
            plain = len(message) == 2 and type(message.get(content_key)) is str
            if source is Source.AGENT:
                speak = self._spoken if plain and not self.dialect.think else self._agent
                index = speak(messages, index, draft, tools)
            elif source is Source.ENVIRONMENT:
                index = self._environment(messages, index, draft)
            else:
                self._turn(message, source, draft, plain)
                index += 1
            if where is not None:
                where.extend([len(draft.steps) - 1] * (index - len(where)))

    def _source(self, message: Any, index: int) -> Source:
        if type(message) is not dict:
            raise RecordError("wrong_type", f"message {index} is {type(message).__name__}, not an object")
        role = message.get(self.role_key)
        source = self.roles.get(role) if type(role) is str else None
        if source is None:
            raise RecordError("unknown_role", f"message {index} has the {self.role_key} {str(role)[:80]!r}")
        return source

    def _content(self, message: dict[str, Any]) -> Any:
        content = message.get(self.content_key)
        if content is None:
            return next((m for key in self.dialect.more_content if (m := message.get(key)) is not None), None)
        return content

    def _turn(self, message: dict[str, Any], source: Source, draft: Draft, plain: bool) -> None:
        """A turn of the system or the user; of the environment, where a pattern or the name says so."""
        content = self._content(message)
        inferred = False
        if source is Source.USER:
            seen = observed(content, self.observations) if type(content) is str and draft.steps else None
            if seen is not None:
                content, inferred, source = seen.text, True, Source.ENVIRONMENT
            elif message.get("name") == "environment":
                source = Source.ENVIRONMENT
        role = message.get("role")
        if plain and role != "developer":
            draft.steps.append(Step(source=source, content=(Part(text=content),), source_inferred=inferred))
            return
        extra = self._rest(message, _TURN, draft)
        if role == "developer":
            extra["role"] = role
        draft.steps.append(
            Step(
                source=source,
                content=parts_of(content, draft, _WHERE),
                name=_text(message, "name"),
                timestamp=_stamp(message.get("timestamp")),
                weight=weight_of(message.get(self.dialect.weight_key)),
                reward=_real(message.get("reward")),
                source_inferred=inferred,
                copied_context=message.get("copied_context") is True,
                extra_json=compact(extra) if extra else None,
            )
        )

    def _spoken(self, messages: list[Any], index: int, draft: Draft, tools: int | None) -> int:
        """An agent's turn of role and text alone: the common case, on the fast way."""
        content: str = messages[index][self.content_key]
        decoded = self._decode(content, messages, index)
        after = index + 1
        if decoded is None:
            draft.steps.append(Step(source=Source.AGENT, content=(Part(text=content),), tools=tools))
            return after
        calls = draft.calls(decoded.calls)
        results: tuple[ToolResult, ...] = ()
        if len(calls) == 1 and after < len(messages) and not self.hermes:
            seen = self._answer(messages[after])
            if seen is not None:
                parts = (Part(text=seen.text),) if seen.text else ()
                by = PairedBy.NAME if seen.name is not None and seen.name == calls[0].name else PairedBy.ORDER
                results = (ToolResult(call_id=calls[0].id, name=seen.name, content=parts, paired_by=by),)
                after += 1
        if not results:
            results, after = self._answers(messages, after, draft, calls)
        draft.steps.append(
            Step(source=Source.AGENT, content=_around(decoded), tool_calls=calls, results=results, tools=tools)
        )
        return after

    def _answer(self, message: Any) -> Observed | None:
        """What the environment says in a user's turn of role and text alone."""
        if type(message) is not dict or len(message) != 2:
            return None
        role, content = message.get(self.role_key), message.get(self.content_key)
        if type(content) is not str or type(role) is not str or self.roles.get(role) is not Source.USER:
            return None
        return observed(content, self.observations) or (Observed(content) if self.next_observes else None)

    def _observes(self, message: dict[str, Any]) -> bool:
        """Whether a user's turn, whatever else it holds, is what the environment says."""
        content = self._content(message)
        if self.roles[message[self.role_key]] is not Source.USER or type(content) is not str:
            return False
        return self.next_observes or observed(content, self.observations) is not None

    def _agent(self, messages: list[Any], index: int, draft: Draft, tools: int | None) -> int:
        message = messages[index]
        content = self._content(message)
        found: tuple[Found, ...] = calls_of(message)
        if found:
            _lose_of_calls(message, draft)
        if "usage" in message:
            draft.lost.update(f"messages[].usage.{name}" for name in unknown_usage(message["usage"]))
        reasoning = next((m for k in _REASONING if type(m := message.get(k)) is str), None)
        decoded: Decoded | None = None
        if type(content) is str:
            if self.dialect.think and reasoning is None:
                reasoning, content = split_think(content)
            if not found:
                decoded = self._decode(content, messages, index)
        calls = draft.calls(decoded.calls if decoded else found)
        results, after = self._answers(messages, index + 1, draft, calls)
        if reasoning is not None:
            draft.thinking = True
        extra = self._rest(message, _AGENT, draft)
        draft.steps.append(
            Step(
                source=Source.AGENT,
                content=_around(decoded) if decoded else parts_of(content, draft, _WHERE),
                reasoning=reasoning,
                tool_calls=calls,
                results=results,
                tools=tools,
                name=_text(message, "name"),
                timestamp=_stamp(message.get("timestamp")),
                model=_text(message, "model"),
                finish_reason=_text(message, "finish_reason"),
                usage=usage_of(message.get("usage")),
                weight=weight_of(message.get(self.dialect.weight_key)),
                reward=_real(message.get("reward")),
                copied_context=message.get("copied_context") is True,
                extra_json=compact(extra) if extra else None,
            )
        )
        return after

    def _decode(self, content: str, messages: list[Any], index: int) -> Decoded | None:
        """The calls in an agent's text, where it may hold any."""
        if not self.decoders:
            return None
        if self.dialect.only_observed:
            following = messages[index + 1] if index + 1 < len(messages) else None
            if following is None or (
                self._source(following, index + 1) is not Source.ENVIRONMENT and not self._observes(following)
            ):
                return None
        for decoder in self.decoders:
            decoded = decoder(content)
            if decoded is not None:
                return decoded
        return None

    def _answers(
        self, messages: list[Any], after: int, draft: Draft, calls: tuple[Any, ...]
    ) -> tuple[tuple[ToolResult, ...], int]:
        """The results of an agent's calls, and the index of the turn after them."""
        results: list[ToolResult] = []
        while calls and after < len(messages):
            more = self._results(messages[after], after, draft)
            if more is None:
                break
            results.extend(more)
            after += 1
        return (pair(calls, results) if results else ()), after

    def _environment(self, messages: list[Any], index: int, draft: Draft) -> int:
        """The environment without a call before it: its own words, or results that answer nothing."""
        message = messages[index]
        if message.get(self.role_key) == "environment" and "tool_call_id" not in message:
            self._turn(message, Source.ENVIRONMENT, draft, plain=False)
            return index + 1
        results = self._results(message, index, draft) or []
        index += 1
        while index < len(messages) and self._source(messages[index], index) is Source.ENVIRONMENT:
            results.extend(self._results(messages[index], index, draft) or [])
            index += 1
        draft.steps.append(Step(source=Source.ENVIRONMENT, results=tuple(results)))
        return index

    def _results(self, message: Any, index: int, draft: Draft) -> list[ToolResult] | None:
        """The results in a turn that follows an agent's calls; None when it is no such turn."""
        source = self._source(message, index)
        content = self._content(message)
        if source is Source.ENVIRONMENT:
            error = message.get("is_error")
            if len(message) > 2:
                self._lose(message, _RESULT, draft)
            bodies: list[Any] = [content]
            if self.hermes and isinstance(content, str):
                bodies = list(hermes.responses(content) or [content])
            return [
                ToolResult(
                    source_call_id=_text(message, "tool_call_id"),
                    name=_text(message, "name"),
                    content=parts_of(body, draft, _WHERE),
                    is_error=error if isinstance(error, bool) else None,
                    paired_by=PairedBy.NONE,
                )
                for body in bodies
            ]
        if source is not Source.USER or type(content) is not str:
            return None
        texts = hermes.responses(content) if self.hermes else None
        seen = [Observed(text) for text in texts] if texts else None
        if seen is None:
            one = observed(content, self.observations) or (Observed(content) if self.next_observes else None)
            seen = None if one is None else [one]
        if seen is None:
            return None
        if len(message) > 2:
            self._lose(message, frozenset(), draft)
        return [
            ToolResult(name=s.name, content=(Part(text=s.text),) if s.text else (), paired_by=PairedBy.NONE)
            for s in seen
        ]

    def _rest(self, message: dict[str, Any], known: frozenset[str], draft: Draft) -> dict[str, Any]:
        """The fields of a turn that no field of a step holds."""
        extra = draft.rest(message, known | self.own, "messages[].")
        for key in _TEXTS:
            if key in known and message.get(key) is not None and type(message[key]) is not str:
                extra[key] = message[key]
        return extra

    def _lose(self, message: dict[str, Any], known: frozenset[str], draft: Draft) -> None:
        """Names the fields of a result's turn that a result has no place for; weight 0 is what a result has anyway."""
        weight = message.get(self.dialect.weight_key)
        draft.lose_rest(message, known | self.own, "messages[]")
        if weight:
            draft.lose(f"messages[].{self.dialect.weight_key}")


def _around(decoded: Decoded) -> tuple[Part, ...]:
    """The text before and after the calls; the white space between them belongs to the encoding."""
    before, after = decoded.before.rstrip(), decoded.after.strip()
    if not after:
        return (Part(text=before),) if before else ()
    return (Part(text=before), Part(text=after)) if before else (Part(text=after),)


def split_think(text: str) -> tuple[str | None, str]:
    """The reasoning in `<think>…</think>` at the start of `text`, and the rest; None when it does not start so."""
    lead = text.lstrip()
    if not lead.startswith("<think>"):
        return None, text
    inner, closed, rest = lead[len("<think>") :].partition("</think>")
    return (inner.strip("\n"), rest.lstrip("\n")) if closed else (None, text)


def _lose_of_calls(message: dict[str, Any], draft: Draft) -> None:
    """Names what a call holds beside id, name and arguments."""
    for call in message.get("tool_calls") or ():
        draft.lose_rest(call, _CALL, "messages[].tool_calls[]")
        function = call.get("function") or call.get("custom")
        if isinstance(function, dict) and len(function) > 2:
            draft.lose_rest(function, _FUNCTION, "messages[].tool_calls[].function")


def _text(message: dict[str, Any], key: str) -> str | None:
    value = message.get(key)
    return value if isinstance(value, str) else None


def _real(value: Any) -> float | None:
    found = number(value)
    return None if found is None else float(found)


def _stamp(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
