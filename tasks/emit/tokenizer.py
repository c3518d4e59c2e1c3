"""A tokenizer with its chat template: chats in, token ids and the assistant's spans out.

The fast path needs no offsets: in a byte-level vocabulary every token has a fixed length in bytes, so a running
sum over the ids gives each token's place, and the sum must equal the text's length, which proves that nothing was
added or lost. Other vocabularies, and text that the normaliser would change, take the tokenizer's own offsets.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingExtra, RecordError, UserError
from schemas.ids import digest
from schemas.rows import TokenSpan
from tasks.emit.messages import Chat
from tasks.emit.offline import offline

Ids = NDArray[np.int32]

_MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")
# Tokens that end a turn in the templates of the field, beside the tokenizer's own end token.
_STOPS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
    "<|user|>",
    "<|observation|>",
)


_ASK: list[dict[str, Any]] = [{"role": "user", "content": "?"}]


class Span(NamedTuple):
    """What the policy said in one message: token positions [start, end), and whether the last one is a stop token."""

    message: int
    start: int
    end: int
    stopped: bool


class Encoded(NamedTuple):
    """A chat as token ids with the policy's spans."""

    ids: Ids
    spans: list[Span]
    text: str


class ChatTokenizer:
    """A tokenizer folder and a chat template. Build it with `load`; it is safe to share between threads."""

    def __init__(self, tokenizer: Any, template: str) -> None:
        self.hf, self.template = tokenizer, template
        self.backend = tokenizer.backend_tokenizer
        self.marked = bool(_MARKS.search(template))

    @classmethod
    def load(cls, folder: Path, template: str = "") -> "ChatTokenizer":
        """The tokenizer in `folder`; `template` is a file, or empty for the tokenizer's own (see `choose_template`).

        UserError: no tokenizer there. MissingExtra: transformers is not installed.
        """
        offline()
        try:
            from transformers import AutoTokenizer
        except ModuleNotFoundError as error:
            raise MissingExtra("transformers", "local") from error
        if not (folder / "tokenizer.json").is_file():
            raise UserError(
                f"'{folder}' holds no tokenizer (tokenizer.json is missing).",
                "A model's folder has one, and so does what `save_pretrained` writes.",
                'Name the folder with tokenizer = "DIR"; empty takes the embedded model\'s.',
            )
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        if template:
            if not Path(template).is_file():
                raise UserError(f"There is no chat template at '{template}'.")
            return cls(tokenizer, Path(template).read_text(encoding="utf-8"))
        return cls(tokenizer, choose_template(tokenizer))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What identifies tokenizer and template, the same on every machine."""
        return {
            "sha256": tokenizer_sha256(self.backend),
            "vocabulary": int(self.backend.get_vocab_size()),
            "template_sha256": digest_text(self.template),
            "class": type(self.hf).__name__,
        }

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """Ids of the tokens that end a turn."""
        found = {self.backend.token_to_id(text) for text in (*_STOPS, self.hf.eos_token or "")}
        return frozenset(key for key in found if key is not None)

    def speaks(self, span: TokenSpan) -> bool:
        """Whether a recorded call's ids are this tokenizer's: by its recorded hash, else by decoding the ids."""
        if span.tokenizer_sha256 is not None:
            return bool(span.tokenizer_sha256 == self.identity["sha256"])
        if max(span.completion_token_ids, default=0) >= self.identity["vocabulary"]:
            return False
        said = self.backend.decode(list(span.completion_token_ids), skip_special_tokens=False)
        for stop in self.stop_ids:
            said = said.removesuffix(self.backend.id_to_token(stop))
        return bool(span.raw_text) and said.strip() == span.raw_text.strip()

    def render(self, chats: Sequence[Chat]) -> list[tuple[str, list[tuple[int, int, int]]]]:
        """Text and the policy's character spans (start, end, message) of each chat."""
        return [self._render(chat) for chat in chats]

    def encode(self, chats: Sequence[Chat]) -> list[Encoded | RecordError]:
        """Token ids and spans of each chat; a chat that the template cannot hold gives its RecordError."""
        rendered: list[tuple[str, list[tuple[int, int, int]]] | RecordError] = []
        for chat in chats:
            try:
                rendered.append(self._render(chat))
            except RecordError as error:
                rendered.append(error)
        texts = [entry[0] for entry in rendered if not isinstance(entry, RecordError)]
        encodings = iter(self.backend.encode_batch_fast(texts, add_special_tokens=False))
        result: list[Encoded | RecordError] = []
        for entry in rendered:
            if isinstance(entry, RecordError):
                result.append(entry)
                continue
            text, spans = entry
            ids = np.array(next(encodings).ids, dtype=np.int32)
            result.append(Encoded(ids, self._token_spans(text, ids, spans), text))
        return result

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

    def char_to_token(self, encoded: Encoded, positions: Sequence[int]) -> list[int]:
        """The index of the first token that starts at or after each character position."""
        starts = self._starts(encoded.text, encoded.ids)
        return [int(np.searchsorted(starts, at, side="left")) for at in _to_bytes(encoded.text, positions)]

    def _text(self, messages: Sequence[dict[str, Any]], tools: list[Any] | None, *, prompt: bool = False) -> str:
        return self._jinja(messages, tools, marks=False, prompt=prompt)[0]

    def _jinja(
        self, messages: Sequence[dict[str, Any]], tools: list[Any] | None, *, marks: bool, prompt: bool = False
    ) -> tuple[str, list[tuple[int, int]]]:
        from jinja2.exceptions import TemplateError
        from transformers.utils.chat_template_utils import render_jinja_template

        try:
            texts, spans = render_jinja_template(
                [list(messages)],
                tools=tools,
                chat_template=self.template,
                return_assistant_tokens_mask=marks,
                add_generation_prompt=prompt,
                **self.hf.special_tokens_map,
            )
        except (TemplateError, TypeError, KeyError, IndexError) as error:
            raise RecordError("template_refuses", str(error)) from error
        return texts[0], spans[0] if marks else []

    def _render(self, chat: Chat) -> tuple[str, list[tuple[int, int, int]]]:
        spoken = [index for index, message in enumerate(chat.messages) if message["role"] == "assistant"]
        if not self.marked:
            return self._by_prefix(chat, spoken)
        text, marks = self._jinja(chat.messages, chat.tools, marks=True)
        if len(marks) == len(spoken):
            spans = [(*mark, message) for mark, message in zip(marks, spoken, strict=True)]
        else:
            spans = self._by_place(chat, text, marks, spoken)
        prompt = self._prompt
        spans = [(_after_prompt(text, start, end, prompt), end, message) for start, end, message in spans]
        for message in spoken:
            _complete("".join(text[start:end] for start, end, of in spans if of == message), chat.messages[message])
        return text, spans

    def _by_prefix(self, chat: Chat, spoken: Sequence[int]) -> tuple[str, list[tuple[int, int, int]]]:
        """Spans without marks: what the render gains by each assistant message after its generation prompt."""
        text = self._text(chat.messages, chat.tools)
        spans = []
        for message in spoken:
            before = self._text(chat.messages[:message], chat.tools, prompt=True)
            after = self._text(chat.messages[: message + 1], chat.tools).removesuffix(self._closing)
            if not (text.startswith(after) and after.startswith(before)):
                raise RecordError("template_unstable", f"message {message} changes what was rendered before it")
            _complete(after[len(before) :], chat.messages[message])
            spans.append((len(before), len(after), message))
        return text, spans

    def _by_place(
        self, chat: Chat, text: str, marks: Sequence[tuple[int, int]], spoken: Sequence[int]
    ) -> list[tuple[int, int, int]]:
        """Which message each mark belongs to, when a template marks one message in several pieces."""
        ends = []
        for message in spoken:
            after = self._text(chat.messages[: message + 1], chat.tools)
            ends.append(_common(after, text))
        if not marks or ends != sorted(ends):
            raise RecordError("template_marks", f"{len(marks)} marks for {len(spoken)} assistant messages")
        spans = []
        for start, end in marks:
            place = next((i for i, limit in enumerate(ends) if end <= limit), len(ends) - 1)
            spans.append((start, end, spoken[place]))
        return spans

    @cached_property
    def _prompt(self) -> str:
        """What the template appends to ask for an answer, such as `<|im_start|>assistant` and a line feed."""
        plain, asked = self._text(_ASK, None), self._text(_ASK, None, prompt=True)
        return asked[_common(plain, asked) :]

    @cached_property
    def _closing(self) -> str:
        """The end token that some templates put behind every render, whatever the last message."""
        eos = self.hf.eos_token or ""
        return eos if eos and self._text(_ASK, None).endswith(eos) else ""

    def _token_spans(self, text: str, ids: Ids, spans: Sequence[tuple[int, int, int]]) -> list[Span]:
        starts = self._starts(text, ids)
        edges = _to_bytes(text, [edge for start, end, _ in spans for edge in (start, end)])
        places = np.searchsorted(starts, np.array(edges), side="left").tolist()
        found: list[Span] = []
        for i, (_, _, message) in enumerate(spans):
            span = self._with_stop(ids, message, places[2 * i], places[2 * i + 1])
            again = found and found[-1].message == message and found[-1].stopped
            if not (again and all(int(key) in self.stop_ids for key in ids[span.start : span.end])):
                # A second end token behind the turn's own was never sampled.
                found.append(span)
        return found

    def _with_stop(self, ids: Ids, message: int, start: int, end: int) -> Span:
        """The span up to and with its stop token: separators that a template adds behind it were never sampled."""
        for last in range(end - 1, max(start - 1, end - 4), -1):
            if int(ids[last]) in self.stop_ids:
                return Span(message, start, last + 1, True)
            if self.backend.decode([int(ids[last])], skip_special_tokens=False).strip():
                break
        if end < len(ids) and int(ids[end]) in self.stop_ids:
            return Span(message, start, end + 1, True)
        return Span(message, start, end, False)

    def _starts(self, text: str, ids: Ids) -> NDArray[np.int64]:
        """The byte at which each token starts."""
        lengths = self._byte_lengths
        if lengths is not None and (self.backend.normalizer is None or text.isascii()):
            ends = np.cumsum(lengths[ids])
            if len(ends) == 0 or ends[-1] == len(text.encode()):
                return np.concatenate(([0], ends[:-1])) if len(ends) else ends
        encoding = self.backend.encode(text, add_special_tokens=False)
        if len(encoding.ids) != len(ids):
            raise RecordError("tokenizer_unstable", "the same text gave different tokens")
        return np.array(_to_bytes(text, [start for start, _ in encoding.offsets]), dtype=np.int64)

    @cached_property
    def _byte_lengths(self) -> NDArray[np.int64] | None:
        """Length in bytes of every id of a byte-level vocabulary; None for other vocabularies."""
        made = json.loads(self.backend.to_str())
        if '"ByteLevel"' not in json.dumps(made["pre_tokenizer"]) or '"add_prefix_space": true' in json.dumps(
            made["pre_tokenizer"]
        ):
            return None
        lengths = np.zeros(self.backend.get_vocab_size() + 1, dtype=np.int64)
        for token, key in self.backend.get_vocab(with_added_tokens=False).items():
            lengths[key] = len(token)
        for added in made["added_tokens"]:
            lengths[added["id"]] = len(added["content"].encode())
        return lengths


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


def tokenizer_sha256(backend: Any) -> str:
    """The hash of a tokenizer's whole definition (vocabulary, merges, added tokens), hex."""
    return digest_text(backend.to_str())


def digest_text(text: str) -> str:
    """blake2b-128 of a text, hex."""
    return digest(text)


def _complete(said: str, message: dict[str, Any]) -> None:
    """RecordError when the template dropped what the policy said: its text, or a call."""
    content = (message.get("content") or "").strip()
    if content and content not in said:
        raise RecordError("template_loses_text", content[:80])
    for call in message.get("tool_calls") or ():
        if call["function"]["name"] not in said:
            raise RecordError("template_loses_calls", call["function"]["name"])


def _after_prompt(text: str, start: int, end: int, prompt: str) -> int:
    """The start of what was sampled: a mark that opens inside the generation prompt is moved behind it."""
    for overlap in range(len(prompt), -1, -1):
        begin = start - overlap
        if begin >= 0 and prompt and text.startswith(prompt, begin) and begin + len(prompt) <= end:
            return begin + len(prompt)
    return start


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


def _to_bytes(text: str, positions: Sequence[int]) -> list[int]:
    """Character positions (ascending) as byte positions in the UTF-8 text."""
    if text.isascii():
        return list(positions)
    result, at, total = [], 0, 0
    for position in positions:
        if position < at:
            at, total = 0, 0
        total += len(text[at:position].encode())
        at = position
        result.append(total)
    return result
