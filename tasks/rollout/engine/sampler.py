"""Batched sampling from a causal language model in this process, token by token.

Rows with the same prompt share its prefill; prompts are padded on the left; rows that are done leave the batch.
Each row draws from a generator of its own, seeded by its request, by inverting the cumulative distribution with
one uniform number per token: what a row samples never depends on which rows stood beside it or in what order
(but for the last bits of the logits). Log-probabilities are those of the model before temperature ("raw").
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tasks.rollout.engine.slab import slab_cache

# Rows × positions held at once: 46 kB each for the embedded model in float32, so about 1.2 GB.
_BATCH_POSITIONS = 26_000
_BATCH_ROWS = 128

# Rows leave the cache when so many are done: each leaving copies what stays.
_SHRINK_AT = 0.75


class Row(NamedTuple):
    """One sample to draw. stop: texts that end it (they are cut from the text by the caller, not from the tokens)."""

    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop: tuple[str, ...] = ()


class Sampled(NamedTuple):
    """tokens: with the end-of-turn token when finish_reason is "stop" by it. logprobs: natural, one per token."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str


class Sampler:
    """Draws from `model` (transformers, in evaluation mode) with `tokenizer`."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.layers = int(model.config.num_hidden_layers)
        stops = model.generation_config.eos_token_id
        self.eos = frozenset([stops] if isinstance(stops, int) else stops)
        self.pad = int(tokenizer.pad_token_id)

    def run(
        self, rows: Sequence[Row], deliver: Callable[[int, Sampled], None], halted: Callable[[], bool] = lambda: False
    ) -> None:
        """Samples every row and delivers each as (index, sample) as soon as its batch is done.

        halted: asked before every token; once it says yes the rest is left undelivered.
        """
        order = sorted(range(len(rows)), key=lambda i: (rows[i].max_tokens, len(rows[i].prompt), rows[i].prompt, i))
        while order:
            batch: list[int] = []
            width = 0
            for index in order:
                longest = max(width, len(rows[index].prompt) + rows[index].max_tokens)
                if batch and (len(batch) >= _BATCH_ROWS or longest * (len(batch) + 1) > _BATCH_POSITIONS):
                    break
                batch.append(index)
                width = longest
            order = order[len(batch) :]
            drawn = self._batch([rows[index] for index in batch], halted)
            if drawn is None:
                return
            for index, sampled in zip(batch, drawn, strict=True):
                deliver(index, sampled)

    def _batch(self, rows: Sequence[Row], halted: Callable[[], bool]) -> list[Sampled] | None:
        import numpy as np
        import torch

        prompts = list(dict.fromkeys(row.prompt for row in rows))
        where = {prompt: position for position, prompt in enumerate(prompts)}
        width = max(len(prompt) for prompt in prompts)
        ids = torch.tensor([[self.pad] * (width - len(p)) + list(p) for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        draws = [np.random.Generator(np.random.Philox(row.seed)) for row in rows]
        tokens: list[list[int]] = [[] for _ in rows]
        logprobs: list[list[float]] = [[] for _ in rows]
        ends: list[str | None] = [None] * len(rows)
        cache = slab_cache(self.layers)
        with torch.inference_mode():
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            logits = self._forward(ids, mask, positions, cache)
            spread = torch.tensor([where[row.prompt] for row in rows])
            cache.batch_select_indices(spread)
            logits, mask, position = logits[spread], mask[spread], positions[spread, -1:]
            alive = list(range(len(rows)))
            while not halted():
                live = [rows[i] for i in alive]
                uniforms = [draws[i].random() for i in alive]
                chosen, scores = _draw(logits, live, uniforms)
                for i, token, score in zip(alive, chosen.tolist(), scores.tolist(), strict=True):
                    if ends[i] is None:
                        tokens[i].append(token)
                        logprobs[i].append(score)
                        ends[i] = self._end(rows[i], tokens[i])
                unfinished = [k for k, i in enumerate(alive) if ends[i] is None]
                if not unfinished:
                    return [
                        Sampled(tuple(ids), tuple(scores), end or "length")
                        for ids, scores, end in zip(tokens, logprobs, ends, strict=True)
                    ]
                chosen, mask, position = (
                    chosen[:, None],
                    torch.cat([mask, mask.new_ones(len(alive), 1)], 1),
                    position + 1,
                )
                if len(unfinished) <= _SHRINK_AT * len(alive):
                    stay = torch.tensor(unfinished)
                    cache.batch_select_indices(stay)
                    chosen, mask, position = chosen[stay], mask[stay], position[stay]
                    alive = [alive[k] for k in unfinished]
                logits = self._forward(chosen, mask, position, cache)
        return None

    def _forward(self, ids: Any, mask: Any, positions: Any, cache: Any) -> Any:
        """The last position's logits (rows, vocabulary) in float32."""
        full = mask if bool((mask == 0).any()) else None
        out = self.model(
            input_ids=ids, attention_mask=full, position_ids=positions, cache=cache, use_cache=True, logits_to_keep=1
        )
        return out.logits[:, -1].float()

    def _end(self, row: Row, tokens: list[int]) -> str | None:
        if tokens[-1] in self.eos:
            return "stop"
        if row.stop:
            text = self.tokenizer.decode(tokens, skip_special_tokens=False)
            if any(stop in text for stop in row.stop):
                return "stop"
        return "length" if len(tokens) >= row.max_tokens else None


def _draw(logits: Any, rows: Sequence[Row], uniforms: Sequence[float]) -> tuple[Any, Any]:
    """One token a row and its raw log-probability."""
    import torch

    raw = torch.log_softmax(logits, -1)
    heat = torch.tensor([row.temperature if row.temperature > 0 else 1.0 for row in rows])
    weights = torch.softmax(logits / heat[:, None], -1)
    if any(row.top_p < 1.0 for row in rows):
        weights = _nucleus(weights, torch.tensor([row.top_p for row in rows]))
    cumulative = weights.cumsum(-1)
    wanted = torch.tensor(uniforms, dtype=cumulative.dtype)[:, None] * cumulative[:, -1:]
    chosen = torch.searchsorted(cumulative, wanted, right=True).squeeze(1).clamp(max=logits.shape[-1] - 1)
    greedy = torch.tensor([row.temperature <= 0 for row in rows])
    chosen = torch.where(greedy, logits.argmax(-1), chosen)
    return chosen, raw.gather(1, chosen[:, None]).squeeze(1)


def _nucleus(weights: Any, top_p: Any) -> Any:
    """Weights outside the smallest set of tokens that holds top_p of the mass become 0."""
    import torch

    ordered, order = weights.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    ordered = torch.where(before < top_p[:, None], ordered, torch.zeros_like(ordered))
    return torch.zeros_like(weights).scatter(-1, order, ordered)
