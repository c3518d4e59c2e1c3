"""Supervised fine-tuning with TRL: loss on the policy's tokens only.

On `tokens` shards the labels are used verbatim; on `trl_sft` shards TRL renders the chats with the model's own
template (or its marked twin) and masks everything that the assistant did not say.
"""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

from schemas.errors import UserError
from schemas.ids import seed_for
from tasks.client.token_identity import tokenizer_sha256
from tasks.context import Context
from tasks.emit.manifest import read_manifest
from tasks.train.base import Trainer, Training
from tasks.train.session import (
    Session,
    answer,
    common_arguments,
    figures,
    follow,
    load_rows,
    open_session,
    save,
)


class Sft(Trainer, frozen=True, kw_only=True):
    """Fine-tunes on conversations.

    rows_per_step: rows of one optimiser step. max_length: longer rows are left out and counted as `too_long`, never
    cut; 0 is no limit.
    """

    formats: ClassVar[frozenset[str]] = frozenset({"tokens", "trl_sft"})

    rows_per_step: int = 4
    max_length: int = 1024

    def train(self, shards: Path, out: Path, ctx: Context) -> Training:
        """Trains `max_steps` steps and saves the checkpoint into `out`."""
        seed = seed_for(ctx.recipe.seed, "sft")
        session = open_session(
            self.model_folder(ctx), lora=self.lora, rank=self.lora_rank, dtype=self.dtype, seed=seed % (2**31)
        )
        from trl import SFTConfig, SFTTrainer

        with tempfile.TemporaryDirectory() as scratch:
            rows = load_rows(shards, Path(scratch) / "cache")
            tokenised = "input_ids" in rows.column_names
            if tokenised:
                _check_tokenizer(shards, session)
            config = SFTConfig(
                **common_arguments(Path(scratch), steps=self.max_steps, learning_rate=self.learning_rate, seed=seed),
                per_device_train_batch_size=self.rows_per_step,
                max_length=None,
                assistant_only_loss=not tokenised,
            )
            kept = rows.select_columns(["input_ids", "labels"] if tokenised else ["messages", "tools"])
            trainer = SFTTrainer(
                model=session.model,
                args=config,
                train_dataset=kept,
                processing_class=session.tokenizer,
                peft_config=session.adapters,
            )
            left_out = self._leave_out(trainer)
            follow(trainer, ctx, f"{self.stage} {self.label}")
            trainer.train()
            save(trainer, session, out)
            return self._report(trainer, session, out, left_out, _graded(rows))

    def _leave_out(self, trainer: Any) -> dict[str, int]:
        """Drops rows that are too long or have no label from the prepared dataset; how many, by reason."""
        lengths = [len(ids) for ids in trainer.train_dataset["input_ids"]]
        labelled = [any(label != -100 for label in labels) for labels in trainer.train_dataset["labels"]]
        long = [bool(self.max_length) and length > self.max_length for length in lengths]
        keep = [i for i, too_long in enumerate(long) if labelled[i] and not too_long]
        if not keep:
            raise UserError(
                f"No row is left to train on: {sum(long)} of {len(lengths)} are longer than {self.max_length} tokens.",
                "Rows are never cut.",
                "Raise max_length.",
            )
        counts = {"too_long": sum(long), "zero_mask": sum(1 for i, ok in enumerate(labelled) if not ok and not long[i])}
        if len(keep) < len(lengths):
            trainer.train_dataset = trainer.train_dataset.select(keep)
        return {reason: count for reason, count in counts.items() if count}

    def _report(self, trainer: Any, session: Session, out: Path, left_out: dict[str, int], graded: int) -> Training:
        rows = trainer.train_dataset
        tokens = sum(len(ids) for ids in rows["input_ids"])
        trained = sum(sum(label != -100 for label in labels) for labels in rows["labels"])
        first = rows[0]
        start = next(i for i, label in enumerate(first["labels"]) if label != -100)
        prompt = first["input_ids"][:start] or first["input_ids"][:1]
        facts = {"tokens_seen": max(figures(trainer, "num_tokens"), default=0.0)}
        if graded:
            # TRL's loss knows labels only: a weight between 0 and 1 counts as 1.
            facts["rows_with_unapplied_weights"] = float(graded)
        return Training(
            method=self.plugin_id(),
            steps=int(trainer.state.global_step),
            rows=len(rows),
            left_out=left_out,
            tokens=tokens,
            trained_tokens=trained,
            masked=round(1 - trained / tokens, 6),
            losses=figures(trainer, "loss"),
            rewards=None,
            sample_prompt=str(session.tokenizer.decode(prompt[-128:])),
            sample=answer(out, list(prompt)),
            facts=facts,
        )


def _check_tokenizer(shards: Path, session: Session) -> None:
    manifest = read_manifest(shards)
    own = tokenizer_sha256(str(session.tokenizer.backend_tokenizer.to_str()))
    if manifest.tokenizer is not None and manifest.tokenizer["sha256"] != own:
        raise UserError(
            "The shards were tokenised with another tokenizer than the model's.",
            f"Shards: {manifest.tokenizer['sha256']}, model: {own}.",
            "Emit `tokens` with this model's folder as `tokenizer`, or train on trl_sft shards.",
        )


def _graded(rows: Any) -> int:
    """Rows whose loss weights are not all 0 or 1."""
    if "loss_weights" not in rows.column_names:
        return 0
    return sum(weights is not None for weights in rows["loss_weights"])
