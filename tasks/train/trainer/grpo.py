"""Reinforcement learning with TRL's GRPO, scored by this product's own verifiers.

Groups whose samples all passed or all failed teach nothing, so mixed tasks come first (`order`).
"""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Literal

from schemas.errors import UserError
from schemas.ids import seed_for
from tasks.context import Context
from tasks.train.base import Trainer, Training
from tasks.train.rewards import verified_reward
from tasks.train.session import answer, common_arguments, figures, follow, load_rows, open_session, save


class Grpo(Trainer, frozen=True, kw_only=True):
    """Trains on tasks.

    generations: samples per prompt; prompts: prompts a step; max_tokens: longest completion; temperature of
    sampling. order: "mixed" takes tasks with a pass rate strictly between 0 and 1 first, then from easy to hard;
    "curriculum" from easy to hard; "given" as the shards have them.
    """

    formats: ClassVar[frozenset[str]] = frozenset({"trl_grpo"})

    max_steps: int = 2
    learning_rate: float = 1e-5
    generations: int = 4
    prompts: int = 1
    max_tokens: int = 32
    temperature: float = 1.0
    order: Literal["mixed", "curriculum", "given"] = "mixed"

    def __post_init__(self) -> None:
        Trainer.__post_init__(self)
        if self.generations < 2 or self.prompts < 1 or self.max_tokens < 1 or self.temperature <= 0:
            raise ValueError("generations must be at least 2; prompts, max_tokens and temperature must be positive")

    def train(self, shards: Path, out: Path, ctx: Context) -> Training:
        """Trains `max_steps` steps and saves the checkpoint into `out`."""
        seed = seed_for(ctx.recipe.seed, "grpo")
        session = open_session(
            self.model_folder(ctx), lora=self.lora, rank=self.lora_rank, dtype=self.dtype, seed=seed % (2**31)
        )
        from trl import GRPOConfig, GRPOTrainer

        seen: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as scratch:
            rows = load_rows(shards, Path(scratch) / "cache")
            if not len(rows):
                raise UserError(f"The shards in '{shards}' hold no task.")
            rows = rows.select(self._ordered(rows))
            config = GRPOConfig(
                **common_arguments(Path(scratch), steps=self.max_steps, learning_rate=self.learning_rate, seed=seed),
                per_device_train_batch_size=self.generations * self.prompts,
                num_generations=self.generations,
                max_completion_length=self.max_tokens,
                temperature=self.temperature,
                shuffle_dataset=False,
            )
            trainer = GRPOTrainer(
                model=session.model,
                args=config,
                reward_funcs=verified_reward(ctx, seen),
                train_dataset=rows,
                processing_class=session.tokenizer,
                peft_config=session.adapters,
            )
            follow(trainer, ctx, f"{self.stage} {self.label}")
            trainer.train()
            save(trainer, session, out)
            prompt = session.tokenizer.apply_chat_template(
                rows[0]["prompt"], add_generation_prompt=True, tokenize=True, return_dict=True
            )["input_ids"]
        return self._report(trainer, session.tokenizer, out, list(prompt), len(rows), seen)

    def _ordered(self, rows: Any) -> list[int]:
        """The rows in the order of training."""
        if self.order == "given":
            return list(range(len(rows)))
        keys = zip(rows["pass_at_1"], rows["curriculum_key"], rows["id"], strict=True)
        ranked = [
            (self.order == "mixed" and not (rate is not None and 0 < rate < 1), hard, key, index)
            for index, (rate, hard, key) in enumerate(keys)
        ]
        return [index for *_, index in sorted(ranked)]

    def _report(
        self, trainer: Any, tokenizer: Any, out: Path, prompt: list[int], rows: int, seen: Counter[str]
    ) -> Training:
        tokens = max(figures(trainer, "num_tokens"), default=0.0)
        lengths = figures(trainer, "completions/mean_length")
        trained = sum(lengths) * self.generations * self.prompts
        return Training(
            method=self.plugin_id(),
            steps=int(trainer.state.global_step),
            rows=rows,
            left_out={},
            tokens=int(tokens),
            trained_tokens=round(trained),
            masked=round(1 - trained / tokens, 6) if tokens else None,
            losses=figures(trainer, "loss"),
            rewards=figures(trainer, "reward"),
            sample_prompt=str(tokenizer.decode(prompt[-128:])),
            sample=answer(out, prompt),
            facts={f"verdicts_{kind}": float(count) for kind, count in sorted(seen.items())},
        )
