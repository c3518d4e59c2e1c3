"""Trains on a shard folder outside a recipe run: `gristmill train DIR --method sft|grpo` calls `train_dir`."""

from pathlib import Path
from typing import Any

from schemas.errors import UserError
from schemas.vocabulary import Kind
from tasks.context import Context
from tasks.emit.manifest import read_manifest
from tasks.registry import build, plugin_ids
from tasks.train.base import Trainer, Training


def train_dir(shards: Path, method: str, options: dict[str, Any], ctx: Context, out: Path | None = None) -> Training:
    """Trains on `shards` with a trainer's id and options; the checkpoint goes to `out`.

    out defaults to `checkpoints/<method>` beside the shard folder. UserError: an unknown method or option, a folder
    without shards, shards of another format.
    """
    if method not in plugin_ids(Kind.TRAINER):
        raise UserError(f"Unknown method '{method}'.", f"Known: {', '.join(plugin_ids(Kind.TRAINER))}.")
    read_manifest(shards)
    trainer = build(Kind.TRAINER, {"use": method, "shards": shards.name, **options})
    if not isinstance(trainer, Trainer):
        raise UserError(f"'{method}' is not a trainer.")
    trainer.check(shards)
    return trainer.train_into(shards, out or shards.parent / "checkpoints" / trainer.label, ctx)
