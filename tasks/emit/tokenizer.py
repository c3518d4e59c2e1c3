"""A tokenizer with its chat template: chats in, token ids and the assistant's spans out.

The fast path needs no offsets: in a byte-level vocabulary every token has a fixed length in bytes, so a running
sum over the ids gives each token's place, and the sum must equal the text's length, which proves that nothing was
added or lost. Other vocabularies, and text that the normaliser would change, take the tokenizer's own offsets.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingExtra, RecordError, UserError
from schemas.rows import TokenSpan
from tasks.client.token_identity import template_sha256, tokenizer_sha256
from tasks.emit.messages import Chat
from tasks.emit.offline import offline
from tasks.emit.template import ChatTemplate, Said, choose_template

Ids = NDArray[np.int32]

# Pieces of text whose ids are remembered; beyond it the memory starts anew.
_MEMO = 4096
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
        self.hf, self.backend = tokenizer, tokenizer.backend_tokenizer
        self.template = ChatTemplate(template, tokenizer.special_tokens_map)
        self._memo: dict[str, Ids] = {}

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
            "sha256": tokenizer_sha256(str(self.backend.to_str())),
            "vocabulary": int(self.backend.get_vocab_size()),
            "template_sha256": template_sha256(self.template.text),
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

    def encode(self, chats: Sequence[Chat]) -> list[Encoded | RecordError]:
        """Token ids and spans of each chat; a chat that the template cannot hold gives its RecordError."""
        rendered = [self._rendered(chat) for chat in chats]
        ids = iter(self._ids([entry for entry in rendered if not isinstance(entry, RecordError)]))
        return [entry if isinstance(entry, RecordError) else self._encoded(*entry, next(ids)) for entry in rendered]

    def forget(self) -> None:
        """Drops the remembered pieces of text."""
        self._memo = {}

    def _ids(self, rendered: Sequence[tuple[str, list[Said]]]) -> list[Ids]:
        """The ids of each text. What rows share, system prompt and question, is tokenised once.

        Cutting is exact in front of an added token: the tokenizer itself splits there before anything else.
        """
        if self._opener is None:
            return [_array(found) for found in self._encode([text for text, _ in rendered])]
        cuts = [_cuts(text, said, self._opener) for text, said in rendered]
        heads = dict.fromkeys(piece for pieces in cuts for piece in pieces[:-1])
        known = {piece: ids for piece in heads if (ids := self._memo.get(piece)) is not None}
        fresh = [piece for piece in heads if piece not in known]
        found = [_array(encoding) for encoding in self._encode([*fresh, *(pieces[-1] for pieces in cuts)])]
        made = dict(zip(fresh, found, strict=False))
        if len(self._memo) + len(made) > _MEMO:
            self._memo = {}
        self._memo.update(made)
        known.update(made)
        tails = found[len(fresh) :]
        return [
            np.concatenate([*(known[piece] for piece in pieces[:-1]), tail])
            for pieces, tail in zip(cuts, tails, strict=True)
        ]

    def _encode(self, texts: Sequence[str]) -> list[Any]:
        found: list[Any] = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return found

    def _rendered(self, chat: Chat) -> tuple[str, list[Said]] | RecordError:
        try:
            self._refuse_controls(chat)
            return self.template.render(chat)
        except RecordError as error:
            return error

    def _refuse_controls(self, chat: Chat) -> None:
        """RecordError when a text spells a token that opens or ends a turn: it would become one."""
        for message in chat.messages:
            calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
            for text in (message.get("content") or "", message.get("reasoning_content") or "", *_texts(calls)):
                for control in self._controls:
                    if control in text:
                        raise RecordError("control_token", f"a text holds {control}")

    @cached_property
    def _controls(self) -> tuple[str, ...]:
        tokens = [str(self.backend.id_to_token(key)) for key in sorted(self.stop_ids)]
        return tuple(dict.fromkeys([*tokens, *([self._opener] if self._opener else [])]))

    def _encoded(self, text: str, said: Sequence[Said], ids: Ids) -> Encoded | RecordError:
        try:
            return Encoded(ids, self._token_spans(text, ids, said), text)
        except RecordError as error:
            return error

    def char_to_token(self, encoded: Encoded, positions: Sequence[int]) -> list[int]:
        """The index of the first token that starts at or after each character position."""
        starts = self._starts(encoded.text, encoded.ids)
        return [int(np.searchsorted(starts, at, side="left")) for at in _to_bytes(encoded.text, positions)]

    def _token_spans(self, text: str, ids: Ids, said: Sequence[Said]) -> list[Span]:
        starts = self._starts(text, ids)
        edges = _to_bytes(text, [edge for one in said for edge in (one.start, one.end)])
        places = np.searchsorted(starts, np.array(edges), side="left").tolist()
        found: list[Span] = []
        for i, one in enumerate(said):
            span = self._with_stop(ids, one.message, places[2 * i], places[2 * i + 1])
            again = found and found[-1].message == one.message and found[-1].stopped
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
            if len(ends) == 0 or ends[-1] == (len(text) if text.isascii() else len(text.encode())):
                return np.concatenate(([0], ends[:-1])) if len(ends) else ends
        encoding = self.backend.encode(text, add_special_tokens=False)
        if len(encoding.ids) != len(ids):
            raise RecordError("tokenizer_unstable", "the same text gave different tokens")
        return np.array(_to_bytes(text, [start for start, _ in encoding.offsets]), dtype=np.int64)

    @cached_property
    def _opener(self) -> str | None:
        """The added token that opens every turn, where text may be cut in front of it; None where it may not."""
        if self._byte_lengths is None:
            return None
        plain = [
            added["content"]
            for added in json.loads(self.backend.to_str())["added_tokens"]
            if not (added["lstrip"] or added["rstrip"] or added["single_word"] or added["normalized"])
        ]
        return next((token for token in plain if self.template.prompt.startswith(token)), None)

    @cached_property
    def _byte_lengths(self) -> NDArray[np.int64] | None:
        """Length in bytes of every id of a byte-level vocabulary; None for other vocabularies."""
        made = json.loads(self.backend.to_str())
        if '"ByteLevel"' not in json.dumps(made["pre_tokenizer"]) or '"add_prefix_space": true' in json.dumps(
            made["pre_tokenizer"]
        ):
            return None
        vocabulary = self.backend.get_vocab(with_added_tokens=True)
        lengths = np.zeros(max(vocabulary.values()) + 1, dtype=np.int64)
        for token, key in vocabulary.items():
            lengths[key] = len(token)
        for added in made["added_tokens"]:
            lengths[added["id"]] = len(added["content"].encode())
        return lengths


def _texts(value: Any) -> list[str]:
    """Every string inside a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, child in value.items() for text in (key, *_texts(child))]
    return [text for child in value for text in _texts(child)] if isinstance(value, list) else []


def _array(encoding: Any) -> Ids:
    return np.array(encoding.ids, dtype=np.int32)


def _cuts(text: str, said: Sequence[Said], opener: str) -> list[str]:
    """The text in up to three pieces: first turn, further turns before the policy speaks, the rest."""
    first = text.find(opener, 1)
    last = text.rfind(opener, 0, said[0].start) if said else -1
    edges = sorted({edge for edge in (first, last) if 0 < edge <= last})
    return [text[start:end] for start, end in zip([0, *edges], [*edges, len(text)], strict=True)]


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
