"""Rendered chat text: ChatML (`<|im_start|>role … <|im_end|>`) and Llama 3 (`<|start_header_id|>role…<|eot_id|>`).

The text is taken apart where the template put its marks, and only there: a mark that a message itself contains
cannot be told from the template's. Calls inside of turns are read as Hermes text unless told otherwise.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from schemas.errors import RecordError
from tasks.normalize.base import Importer
from tasks.normalize.chat import Reader
from tasks.normalize.dialect import Dialect
from tasks.normalize.draft import Draft
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import an_object, transcript

_FIELDS = ("text", "prompt", "conversation", "content")
_STYLES = {
    "<|im_start|>": re.compile(
        r"<\|im_start\|>([^\n<]{1,64})\n(.*?)(?:<\|im_end\|>\n?|(?=<\|im_start\|>)|\Z)", re.DOTALL
    ),
    "<|start_header_id|>": re.compile(
        r"<\|start_header_id\|>([^\n<]{1,64})<\|end_header_id\|>\n{0,2}(.*?)(?:<\|eot_id\|>|<\|eom_id\|>|\Z)", re.DOTALL
    ),
}


class ChatTemplate(Importer, frozen=True, kw_only=True, dict=True):
    """Reads text rendered with a chat template.

    text_fields: the fields that hold it, joined in order (default: the first known name present). calls,
    observation, roles, think: see `tasks.normalize.dialect.Dialect`.
    """

    text_fields: tuple[str, ...] = ()
    calls: tuple[str, ...] = ("hermes",)
    observation: tuple[str, ...] = ()
    roles: dict[str, str] = {}
    think: bool = True

    def __post_init__(self) -> None:
        self._made()

    def _made(self) -> Reader:
        return Reader(Dialect(calls=self.calls, observation=self.observation, roles=self.roles, think=self.think))

    @cached_property
    def reader(self) -> Reader:
        """Reads the turns in the dialect that the options describe."""
        return self._made()

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        if isinstance(record, str):
            record = {"text": record}
        record = an_object(record)
        fields = self.text_fields or tuple(name for name in _FIELDS if isinstance(record.get(name), str))[:1]
        texts = [record.get(name) for name in fields]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise RecordError("no_messages", f"no text in {', '.join(self.text_fields or _FIELDS)}")
        messages, cut = turns_of("".join(texts))
        return (
            transcript(
                messages,
                Draft(),
                record,
                reader=self.reader,
                known=set(fields),
                drop=self.drop_fields,
                truncated=cut,
            ),
        )


def turns_of(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The turns of a rendered text, and whether its last one never ends. Raises RecordError without a mark."""
    style = next((mark for mark in _STYLES if mark in text), None)
    if style is None:
        raise RecordError("no_messages", f"the text holds neither {' nor '.join(_STYLES)}")
    _no_text(text[: text.index(style)].replace("<|begin_of_text|>", ""))
    turns: list[dict[str, Any]] = []
    cut = False
    end = text.index(style)
    for match in _STYLES[style].finditer(text):
        content = match.group(2)
        _no_text(text[end : match.start()])
        end = match.end()
        cut = match.end() == len(text) and not match.group(0).rstrip("\n").endswith("|>")
        turns.append({"role": match.group(1).strip(), "content": content})
    _no_text(text[end:])
    # A generation prompt: the turn that the model was to write.
    if turns and cut and not turns[-1]["content"].strip():
        turns.pop()
        cut = False
    return turns, cut


def _no_text(between: str) -> None:
    if between.replace("<|end_of_text|>", "").strip():
        raise RecordError(
            "text_outside_turns", f"{len(between)} characters belong to no turn: {between.strip()[:80]!r}"
        )
