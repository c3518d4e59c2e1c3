"""The base of every trainer: finds the shards, trains once per content, checks the checkpoint, reports figures.

A trainer's own part is `train`: it writes a checkpoint into a folder and returns the figures. The work item is
(trainer, sha256 of the shards' manifest): the same shards are never trained on twice while the checkpoint stands.
"""

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from schemas.errors import Unavailable, UserError
from schemas.ids import content_id
from schemas.trajectory import Base
from schemas.vocabulary import Kind, Scope, Stage
from tasks.context import Context
from tasks.emit.folder import beside, check_label, replace, sweep
from tasks.emit.manifest import MANIFEST, differences, manifest_sha256, read_manifest
from tasks.emit.model_folder import model_folder, model_identity
from tasks.operator import Effect, Item, Operator, Plan, Result, Unit, WorkingSet, keep

REPORT = "training.json"


class Training(Base, frozen=True):
    """What a training run did. One value per optimiser step in `losses` and `rewards` (None where not measured).

    rows and tokens: what was trained on; left_out: rows that were not, by reason; masked: the share of tokens
    without a loss, 0 to 1; sample: what the checkpoint, loaded again from the disk, answers to a prompt.
    """

    method: str
    steps: int
    rows: int
    left_out: dict[str, int]
    tokens: int
    trained_tokens: int
    masked: float | None
    losses: tuple[float, ...]
    rewards: tuple[float | None, ...] | None
    sample_prompt: str
    sample: str
    facts: dict[str, float] = {}


class Trainer(Operator, frozen=True, kw_only=True):
    """Trains on one shard folder.

    shards: the label of an [[emit]] entry, or the path of a shard folder. name: the checkpoint's folder below
    `checkpoints/`; empty for the trainer's id. model: a model's folder; empty for the embedded model. max_steps:
    optimiser steps. lora: train low-rank adapters of rank lora_rank and merge them into the checkpoint; false
    trains every weight.
    dtype: "auto" trains in float32 on a CPU and as the weights were saved elsewhere.
    """

    kind: ClassVar[Kind] = Kind.TRAINER
    stage: ClassVar[Stage] = Stage.TRAIN
    scope: ClassVar[Scope] = Scope.SET
    reads: ClassVar[Unit] = "record"
    effect: ClassVar[Effect] = "add"
    seeded: ClassVar[bool] = True
    inert: ClassVar[frozenset[str]] = frozenset({"model", "shards", "name"})
    formats: ClassVar[frozenset[str]]

    shards: str
    name: str = ""
    model: str = ""
    max_steps: int = 3
    learning_rate: float = 1e-4
    lora: bool = True
    lora_rank: int = 8
    dtype: str = "auto"

    def __post_init__(self) -> None:
        if self.max_steps < 1 or self.learning_rate <= 0 or self.lora_rank < 1:
            raise ValueError("max_steps, learning_rate and lora_rank must be positive")
        check_label(self.name)

    @property
    def label(self) -> str:
        """The checkpoint's name."""
        return self.name or self.plugin_id()

    def folder(self, ctx: Context) -> Path:
        """Where the checkpoint lies."""
        return ctx.out / "checkpoints" / self.label

    def source(self, inputs: WorkingSet, ctx: Context) -> Path:
        """The shard folder."""
        return Path(dict(inputs.shards).get(self.shards, str(ctx.out / self.shards)))

    def fingerprint(self, ctx: Context) -> str:
        """The options, the seed and the model's content, not its path."""
        return content_id("operator", self.identity(), ctx.recipe.seed, model_identity(ctx, self.model))

    def train(self, shards: Path, out: Path, ctx: Context) -> Training:
        """Trains on `shards`, writes a checkpoint that loads by itself into `out`, returns the figures."""
        raise NotImplementedError(f"{type(self).__name__} must define train()")

    def plan(self, inputs: WorkingSet, ctx: Context) -> Plan:
        """One item per shard folder; none while nothing was emitted."""
        shards = self.source(inputs, ctx)
        if Path(self.shards).is_absolute():
            read_manifest(shards)
        if not (shards / MANIFEST).is_file():
            known = sorted(
                {label for label, _ in inputs.shards} | {p.parent.name for p in ctx.out.glob(f"*/{MANIFEST}")}
            )
            if self.shards not in _emitted(ctx):
                raise UserError(
                    f"Trainer '{self.plugin_id()}' wants the shards '{self.shards}', which no [[emit]] entry writes.",
                    f"Known: {', '.join(sorted({*known, *_emitted(ctx)})) or 'none'}.",
                    'Write shards = "LABEL".',
                )
            return Plan(items=(), n_seen=0)
        self.check(shards)
        sha256 = manifest_sha256(shards)
        item = Item(id=content_id("training", sha256), ref=sha256, params={"shards": str(shards)})
        return Plan(items=(item,), n_seen=1)

    def check(self, shards: Path) -> None:
        """UserError when the folder holds another format than this trainer takes, or is damaged."""
        manifest = read_manifest(shards)
        if manifest.format not in self.formats:
            raise UserError(
                f"Trainer '{self.plugin_id()}' cannot train on '{shards.name}', which holds {manifest.format} rows.",
                f"It takes {', '.join(sorted(self.formats))}.",
            )
        wrong = differences(shards, manifest)
        if wrong:
            raise UserError(f"The shards in '{shards}' are damaged: {wrong[0]}.", todo="Run the export again.")

    def present(self, items: Sequence[Item], ctx: Context) -> bool:
        """Whether the checkpoint that these items became still stands."""
        report = self.folder(ctx) / REPORT
        if not report.is_file() or not any(self.folder(ctx).glob("*.safetensors")):
            return not items
        try:
            made = json.loads(report.read_text(encoding="utf-8"))
        except ValueError:
            return False
        return made.get("trainer") == self.fingerprint(ctx) and made.get("shards") in {item.ref for item in items}

    def run(self, items: Sequence[Item], ctx: Context) -> Result:
        """Trains and puts the checkpoint in its place; the figures are the decision's evidence."""
        outcomes = []
        for item in items:
            made = self.train_into(Path(item.params["shards"]), self.folder(ctx), ctx)
            outcomes.append(keep(item, "trained", score=made.losses[-1], evidence=msgspec.to_builtins(made)))
        return Result(outcomes=tuple(outcomes))

    def train_into(self, shards: Path, target: Path, ctx: Context) -> Training:
        """Trains on `shards` into `target`: written beside it, then renamed; the report is written last."""
        if target.exists() and not (target / REPORT).is_file():
            raise UserError(f"'{target}' exists and is no checkpoint of ours.", todo="Name another folder.")
        sweep(target)
        stage = beside(target, "tmp")
        shutil.rmtree(stage, ignore_errors=True)
        started = time.monotonic()
        try:
            stage.mkdir(parents=True)
            made = self.train(shards, stage, ctx)
            report = {
                "trainer": self.fingerprint(ctx),
                "shards": manifest_sha256(shards),
                "seconds": round(time.monotonic() - started, 3),
                **msgspec.to_builtins(made),
            }
            (stage / REPORT).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            replace(stage, target)
        except OSError as error:
            raise Unavailable("disk", f"{target}: {error}") from error
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        return made

    def model_folder(self, ctx: Context) -> Path:
        """The folder of the model to start from."""
        return model_folder(ctx, self.model)


def _emitted(ctx: Context) -> frozenset[str]:
    """The labels of the recipe's [[emit]] entries."""
    return frozenset(str(entry.get("name") or entry["use"]) for entry in ctx.recipe.emit)
