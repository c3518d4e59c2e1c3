"""The in-process engine: messages → prompt ids → sampled ids → a reply with the exact tokens and log-probabilities."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import MissingExtra
from tasks.client.request import Cause, ModelReply, ModelRequest
from tasks.client.teacher import AttemptFailed
from tasks.client.token_identity import template_sha256, tokenizer_sha256
from tasks.rollout.engine.sampler import Row, Sampled, Sampler

_samplers: dict[str, Sampler] = {}
_lock = threading.Lock()


def load_sampler(folder: Path, threads: int) -> Sampler:
    """The sampler over the model in `folder`, loaded once per process."""
    with _lock:
        key = str(folder)
        if key not in _samplers:
            # Spinning OpenMP threads starve each other when sandboxes use the same cores: 3 to 5 times slower.
            # Read when the library is loaded, so it only counts where nothing imported torch before.
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            try:
                import torch
                import transformers
            except ImportError as error:
                raise MissingExtra(error.name or "transformers", "local") from error
            torch.set_num_threads(threads)
            transformers.utils.logging.disable_progress_bar()
            # Without AMX, float32 decodes faster than bfloat16 on a CPU, and its sums depend less on the batch.
            model = transformers.AutoModelForCausalLM.from_pretrained(key, dtype=torch.float32)
            _samplers[key] = Sampler(model.eval(), transformers.AutoTokenizer.from_pretrained(key))
        return _samplers[key]


class LocalEngine:
    """Samples batches of requests; used by one thread at a time (see EngineTransport)."""

    def __init__(self, folder: Callable[[], Path], name: str, threads: int) -> None:
        self._folder, self.name, self._threads = folder, name, threads
        self._sampler: Sampler | None = None
        self._hashes = ("", "")
        self.tokens = 0
        self.seconds = 0.0

    def start(self) -> None:
        """Loads the model (3 s; the first time ever it is converted, 30 s)."""
        folder = self._folder()
        self._sampler = load_sampler(folder, self._threads)
        self._hashes = (
            tokenizer_sha256((folder / "tokenizer.json").read_text(encoding="utf-8")),
            template_sha256(str(self._sampler.tokenizer.chat_template)),
        )

    def generate(
        self, requests: Sequence[ModelRequest], deliver: Callable[[int, ModelReply | AttemptFailed], None]
    ) -> None:
        """Delivers each request's reply, or why it has none, by index."""
        sampler = self._sampler
        if sampler is None:
            raise RuntimeError("start() comes first")
        rows: list[Row] = []
        index_of: list[int] = []
        for index, request in enumerate(requests):
            try:
                rows.append(self._row(sampler, request))
                index_of.append(index)
            except (ValueError, TypeError, KeyError) as error:
                deliver(index, AttemptFailed(Cause.REJECTED, f"{type(error).__name__}: {error}"))
        began = time.perf_counter()

        def done(position: int, sampled: Sampled) -> None:
            index = index_of[position]
            self.tokens += len(sampled.tokens)
            deliver(index, self._reply(sampler, requests[index], rows[position], sampled, time.perf_counter() - began))

        sampler.run(rows, done, lambda: self._sampler is None)
        self.seconds += time.perf_counter() - began

    def stats(self) -> Mapping[str, float]:
        """Generated tokens, seconds spent generating them, and their ratio."""
        return {
            "tokens": self.tokens,
            "seconds": round(self.seconds, 2),
            "tokens_per_s": round(self.tokens / self.seconds, 1) if self.seconds else 0.0,
        }

    def close(self) -> None:
        """Lets go of the model; it stays loaded for the next engine of this process."""
        self._sampler = None

    def _row(self, sampler: Sampler, request: ModelRequest) -> Row:
        if request.response_format is not None:
            raise ValueError("the in-process engine cannot constrain its output (response_format)")
        tools = None
        if request.tools_json is not None:
            import msgspec

            tools = msgspec.json.decode(request.tools_json)
        encoded = sampler.tokenizer.apply_chat_template(
            [dict(message) for message in request.messages], tools=tools, tokenize=True, add_generation_prompt=True
        )
        prompt = tuple(int(token) for token in encoded["input_ids"])
        room = int(sampler.model.config.max_position_embeddings) - len(prompt)
        if room < 1:
            raise ValueError(f"the prompt has {len(prompt)} tokens, more than the context holds")
        return Row(
            prompt=prompt,
            max_tokens=max(1, min(request.max_tokens or 512, room)),
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            seed=request.seed or 0,
            stop=request.stop,
        )

    def _reply(self, sampler: Sampler, request: ModelRequest, row: Row, sampled: Sampled, seconds: float) -> ModelReply:
        raw = _decoded(sampler, sampled.tokens)
        text = _decoded(sampler, tuple(token for token in sampled.tokens if token not in sampler.eos))
        for stop in request.stop:
            text = text.split(stop, 1)[0]
        return ModelReply(
            text=text,
            raw_text=raw,
            finish_reason=sampled.finish_reason,
            prompt_tokens=len(row.prompt),
            completion_tokens=len(sampled.tokens),
            prompt_token_ids=row.prompt,
            completion_token_ids=sampled.tokens,
            logprobs=sampled.logprobs,
            logprobs_mode="raw",
            engine="transformers",
            tokenizer_sha256=self._hashes[0],
            template_sha256=self._hashes[1],
            latency_s=seconds,
        )


def _decoded(sampler: Sampler, tokens: Sequence[int]) -> str:
    text: Any = sampler.tokenizer.decode(list(tokens), skip_special_tokens=False)
    return str(text)
