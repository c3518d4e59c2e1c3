"""A chat template as a function of a chat: its text, and where in it the policy speaks.

Templates with generation marks say so themselves; others are rendered message by message, and refused where a
later message changes what was rendered before. What a template silently drops is a reason, never a shorter row.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from schemas.errors import RecordError, UserError
from tasks.emit.jinja import render
from tasks.emit.messages import Chat, Message

_MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")
_ASK: list[Message] = [{"role": "user", "content": "?"}]


class Said(NamedTuple):
    """What the policy said in one message, or in one piece of it: characters [start, end)."""

    start: int
    end: int
    message: int


class ChatTemplate:
    """A template's text with the special tokens that it may name."""

    def __init__(self, text: str, special_tokens: dict[str, Any]) -> None:
        self.text, self._special = text, special_tokens
        self.marked = bool(_MARKS.search(text))

    def render(self, chat: Chat) -> tuple[str, list[Said]]:
        """The chat's text and what the policy said, in order; RecordError when the template cannot hold the chat."""
        spoken = [index for index, message in enumerate(chat.messages) if message["role"] == "assistant"]
        if not self.marked:
            return self._by_prefix(chat, spoken)
        text, marks = self._jinja(chat.messages, chat.tools)
        if len(marks) == len(spoken):
            said = [Said(*mark, message) for mark, message in zip(marks, spoken, strict=True)]
        else:
            said = self._by_place(chat, text, marks, spoken)
        said = [Said(_after_prompt(text, one, self.prompt), one.end, one.message) for one in said]
        for message in spoken:
            _complete(
                "".join(text[one.start : one.end] for one in said if one.message == message), chat.messages[message]
            )
        return text, said

    def call_ranges(self, chat: Chat, message: int) -> list[tuple[int, int]]:
        """Character ranges of the calls of one message in the rendered chat, found by rendering it with fewer calls."""
        full = self._text(chat.messages, chat.tools)
        calls = chat.messages[message]["tool_calls"]
        edges = []
        for count in range(len(calls)):
            fewer = {**chat.messages[message], "tool_calls": calls[:count]}
            if not count:
                fewer.pop("tool_calls")
            shorter = self._text([*chat.messages[:message], fewer, *chat.messages[message + 1 :]], chat.tools)
            edges.append(_common(shorter, full))
        last = {**chat.messages[message], "tool_calls": [*calls, calls[-1]]}
        longer = self._text([*chat.messages[:message], last, *chat.messages[message + 1 :]], chat.tools)
        return list(zip(edges, [*edges[1:], _common(full, longer)], strict=True))

    def _text(self, messages: Sequence[Message], tools: list[Any] | None, *, prompt: bool = False) -> str:
        return self._jinja(messages, tools, prompt=prompt)[0]

    def _jinja(
        self, messages: Sequence[Message], tools: list[Any] | None, *, prompt: bool = False
    ) -> tuple[str, list[tuple[int, int]]]:
        values = {
            "messages": [_named(message) for message in messages],
            "tools": tools,
            "documents": None,
            "add_generation_prompt": prompt,
        }
        return render(self.text, {**self._special, **values})

    def _by_prefix(self, chat: Chat, spoken: Sequence[int]) -> tuple[str, list[Said]]:
        """Spans without marks: what the render gains by each assistant message after its generation prompt."""
        text = self._text(chat.messages, chat.tools)
        said = []
        for message in spoken:
            before = self._text(chat.messages[:message], chat.tools, prompt=True)
            after = self._text(chat.messages[: message + 1], chat.tools).removesuffix(self._closing)
            if not (text.startswith(after) and after.startswith(before)):
                raise RecordError("template_unstable", f"message {message} changes what was rendered before it")
            _complete(after[len(before) :], chat.messages[message])
            said.append(Said(len(before), len(after), message))
        return text, said

    def _by_place(self, chat: Chat, text: str, marks: Sequence[tuple[int, int]], spoken: Sequence[int]) -> list[Said]:
        """Which message each mark belongs to, when a template marks one message in several pieces."""
        ends = []
        for message in spoken:
            after = self._text(chat.messages[: message + 1], chat.tools)
            ends.append(_common(after, text))
        if not marks or ends != sorted(ends):
            raise RecordError("template_marks", f"{len(marks)} marks for {len(spoken)} assistant messages")
        said = []
        for start, end in marks:
            place = next((i for i, limit in enumerate(ends) if end <= limit), len(ends) - 1)
            said.append(Said(start, end, spoken[place]))
        return said

    @cached_property
    def prompt(self) -> str:
        """What the template appends to ask for an answer, such as `<|im_start|>assistant` and a line feed."""
        plain, asked = self._text(_ASK, None), self._text(_ASK, None, prompt=True)
        return asked[_common(plain, asked) :]

    @cached_property
    def _closing(self) -> str:
        """The end token that some templates put behind every render, whatever the last message."""
        eos = self._special.get("eos_token") or ""
        return eos if eos and self._text(_ASK, None).endswith(eos) else ""


def choose_template(tokenizer: Any) -> str:
    """The tokenizer's own template when it marks what the assistant said; else a marked twin of it, if one is known.

    Twins are TRL's training templates, where TRL is installed and knows the template. Without one the own template
    is used, and spans are found by rendering prefixes.
    """
    own = tokenizer.chat_template
    if isinstance(own, dict):
        own = own.get("default")
    if not isinstance(own, str):
        raise UserError("The tokenizer has no chat template.", todo='Name a file with `template = "FILE"`.')
    if _MARKS.search(own):
        return own
    try:
        from trl.chat_template_utils import get_training_chat_template
    except ModuleNotFoundError:
        return own
    try:
        return get_training_chat_template(tokenizer) or own
    except ValueError:
        return own


def _named(message: Message) -> Message:
    """The message with its reasoning under every name by which templates read it."""
    reasoning = message.get("reasoning_content")
    return message if reasoning is None else {"thinking": reasoning, **message}


def _complete(said: str, message: Message) -> None:
    """RecordError when the template dropped what the policy said: its text, or a call."""
    content = (message.get("content") or "").strip()
    if content and content not in said:
        raise RecordError("template_loses_text", content[:80])
    for call in message.get("tool_calls") or ():
        if call["function"]["name"] not in said:
            raise RecordError("template_loses_calls", call["function"]["name"])


def _after_prompt(text: str, one: Said, prompt: str) -> int:
    """The start of what was sampled: a mark that opens inside the generation prompt is moved behind it."""
    for overlap in range(len(prompt), -1, -1):
        begin = one.start - overlap
        if begin >= 0 and prompt and text.startswith(prompt, begin) and begin + len(prompt) <= one.end:
            return begin + len(prompt)
    return one.start


def _common(left: str, right: str) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
