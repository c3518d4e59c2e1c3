"""The base of every exporter: plans candidate rows, writes shards, manifest and card, accounts for each item.

An exporter's own part is `make`: items in, rows or a reason for leaving them out. Everything that makes a folder
trustworthy is here: the order (by id), one schema, the counts, the manifest written last, the rename.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from schemas.errors import RecordError, UserError
from schemas.ids import content_id, scope_hash
from schemas.rows import Export
from schemas.vocabulary import Kind, Scope, Stage
from tasks.context import Context
from tasks.emit import facts
from tasks.emit.card import write_card
from tasks.emit.folder import check_label, staged
from tasks.emit.manifest import MANIFEST, VERSION, Manifest, differences, manifest_sha256, read_manifest, write_manifest
from tasks.emit.media import MediaFolder
from tasks.emit.shards import Container, Row, ShardWriter
from tasks.emit.times import times_of
from tasks.operator import Effect, Item, Operator, Outcome, Plan, Result, Unit, WorkingSet, drop, keep, select_ids
from warehouse.blobs import Blobs

# Items whose inputs are held in memory at once, and how often a long export says how far it is, seconds.
_CHUNK, _SIGN_OF_LIFE_S = 256, 5.0
# Where an exporter's items lie, apart from trajectories; and what else is asked for by trajectory.
_TABLES = {"task": "tasks", "pair": "pairs"}
_SIDE = ("verdicts", "step_labels", "token_spans")


class Tokens(NamedTuple):
    """Token counts of one item: before anything was left out, written, and trained on."""

    given: int = 0
    written: int = 0
    trained: int = 0


class Made(NamedTuple):
    """What an item became: rows, or none and the reason. `facts` are counted into the manifest; `media` are the
    files that the rows name, name in the media folder → sha256 of the blob.
    """

    item: Item
    rows: Sequence[Row] = ()
    reason: str = "ok"
    tokens: Tokens | None = None
    licence: str = ""
    facts: dict[str, int] = {}
    media: dict[str, str] = {}


class Written(NamedTuple):
    """A folder that was written (or found equal): its manifest and the outcome of every item."""

    folder: Path
    manifest: Manifest
    outcomes: tuple[Outcome, ...]


class Exporter(Operator, frozen=True, kw_only=True):
    """Writes one shard folder.

    name: the folder's name below the recipe's `out`, and the label by which trainers find it; empty for the
    exporter's id. licence: the licence to state; empty takes the one that all sources carry. shard_mb and
    row_group_mb bound the uncompressed size of a file and of a row group.
    """

    kind: ClassVar[Kind] = Kind.EXPORTER
    stage: ClassVar[Stage] = Stage.EMIT
    scope: ClassVar[Scope] = Scope.SET
    reads: ClassVar[Unit] = "kept"
    effect: ClassVar[Effect] = "add"
    container: ClassVar[Container] = "parquet"
    schema: ClassVar[pa.Schema | None]
    typed: ClassVar[Mapping[str, pa.DataType]] = {}
    about: ClassVar[str]

    name: str = ""
    licence: str = ""
    shard_mb: int = 256
    row_group_mb: int = 32

    def __post_init__(self) -> None:
        if not 1 <= self.row_group_mb <= self.shard_mb or self.row_group_mb > 1024:
            raise ValueError("row_group_mb must lie between 1 and 1024 and not exceed shard_mb")
        check_label(self.name)
        if self.name == "checkpoints":
            raise ValueError("name = 'checkpoints' is the trainers' folder")

    @property
    def label(self) -> str:
        """The folder's name and the trainers' handle."""
        return self.name or self.plugin_id()

    def folder(self, ctx: Context) -> Path:
        """Where the shards lie."""
        return ctx.out / self.label

    def make(self, items: Sequence[Item], ctx: Context) -> Iterable[Made]:
        """One Made per item, in the given order; a bad record is a reason, never an exception."""
        raise NotImplementedError(f"{type(self).__name__} must define make()")

    def tokenizer_identity(self, ctx: Context) -> dict[str, Any] | None:
        """What identifies the tokenizer of a tokenised format (hashes, never a path)."""
        return None

    def plan(self, inputs: WorkingSet, ctx: Context) -> Plan:
        """One item per candidate row. Its id covers the verdicts and labels that the row is made from.

        What curation resampled says in `params` how many `times` its rows are written.
        """
        ids = sorted(set(select_ids(self.reads, inputs)))
        if self.reads not in ("kept", "trajectory"):
            return Plan(items=tuple(Item(id=ref, ref=ref) for ref in ids), n_seen=len(ids))
        labels = facts.side_rows(ctx, "step_labels", Stage.LABEL, ids)
        verdicts = facts.side_rows(ctx, "verdicts", Stage.VERIFY, ids)
        times = times_of(ctx, ids)
        items = [row_item(ref, labels.get(ref, ()), verdicts.get(ref, ()), times=times.get(ref, 1)) for ref in ids]
        return Plan(items=tuple(items), n_seen=len(ids))

    def present(self, items: Sequence[Item], ctx: Context) -> bool:
        """Whether the folder on the disk is whole and made from exactly these items by this operator."""
        folder = self.folder(ctx)
        if not (folder / MANIFEST).is_file():
            return False
        try:
            manifest = read_manifest(folder)
        except UserError:
            return False
        same = (manifest.fingerprint, manifest.selection) == (self.fingerprint(ctx), _selection(items))
        return same and not differences(folder, manifest)

    def run(self, items: Sequence[Item], ctx: Context) -> Result:
        """Writes the folder and records it in `exports`."""
        written = self.write(items, ctx, self.folder(ctx))
        return Result(outcomes=written.outcomes, rows={"exports": [self.export_row(written, ctx)]})

    def write(self, items: Sequence[Item], ctx: Context, folder: Path) -> Written:
        """Writes `items` into `folder`, whatever their order; the same items give the same bytes."""
        ordered = sorted(items, key=lambda item: (item.ref, item.id))
        outcomes, left_out, licences, counts = [], Counter[str](), Counter[str](), Counter[str]()
        tokens: Counter[str] | None = None
        with staged(folder) as stage, ctx.lake.spooled(self._read(ordered)):
            writer = ShardWriter(
                stage,
                self.schema,
                self.container,
                typed=self.typed,
                row_group_bytes=self.row_group_mb << 20,
                shard_bytes=self.shard_mb << 20,
            )
            media = MediaFolder(stage, Blobs(ctx.lake))
            for made in self._chunks(ordered, ctx, media):
                times = made.item.params.get("times", 1)
                counts.update(_repeated(made, times))
                if made.tokens is not None:
                    tokens = _count(tokens or Counter(), Tokens(*(times * count for count in made.tokens)))
                if not made.rows:
                    left_out[made.reason] += 1
                    outcomes.append(drop(made.item, made.reason, evidence={"ref": made.item.ref}))
                    continue
                licences[made.licence] += times * len(made.rows)
                outcomes.append(keep(made.item, made.reason))
                for _ in range(times):
                    for row in made.rows:
                        writer.add(row)
            files = writer.close()
            schema = writer.schema
            manifest = Manifest(
                gristmill=VERSION,
                dataset=ctx.recipe.name,
                label=self.label,
                format=self.plugin_id(),
                fingerprint=self.fingerprint(ctx),
                selection=_selection(items),
                container=self.container,
                schema_text=schema.to_string(show_schema_metadata=False),
                n_items=len(ordered),
                n_kept=len(ordered) - left_out.total(),
                n_rows=sum(file.rows for file in files),
                left_out=dict(sorted(left_out.items())),
                files=files,
                lineage=facts.lineage(ctx),
                licence=self.licence or (next(iter(licences)) if len(licences) == 1 else ""),
                licences=dict(sorted(licences.items())),
                tokens=dict(tokens) if tokens is not None else None,
                mask_ratio=_ratio(tokens),
                tokenizer=self.tokenizer_identity(ctx),
                facts=dict(sorted(counts.items())),
                media=media.files(),
            )
            write_card(stage, manifest, schema, self.about)
            write_manifest(stage, manifest)
        return Written(folder, manifest, tuple(outcomes))

    def export_row(self, written: Written, ctx: Context) -> Export:
        """The `exports` row of a written folder: the place for snapshot and path."""
        sha256 = manifest_sha256(written.folder)
        path = str(written.folder.resolve())
        return Export(
            id=content_id("export", ctx.recipe.name, self.label, sha256, path),
            dataset=ctx.recipe.name,
            format=self.plugin_id(),
            path=path,
            snapshot=ctx.lake.snapshot(),
            rows=written.manifest.n_rows,
            manifest_sha256=sha256,
            manifest_json=(written.folder / MANIFEST).read_text(encoding="utf-8"),
        )

    def trajectories_of(self, item: Item) -> Sequence[str]:
        """The trajectories whose verdicts, labels or spans shape the rows of an item."""
        return (item.ref,)

    def _read(self, ordered: Sequence[Item]) -> dict[tuple[str, str], Sequence[str]]:
        """What will be asked of the lake in this order: keys by table and column."""
        refs = list(dict.fromkeys(item.ref for item in ordered))
        trajectories = list(dict.fromkeys(ref for item in ordered for ref in self.trajectories_of(item)))
        side = {(table, "trajectory_id"): trajectories for table in _SIDE}
        return {(_TABLES.get(self.reads, "trajectories"), "id"): refs, **side}

    def _chunks(self, ordered: Sequence[Item], ctx: Context, media: MediaFolder) -> Iterator[Made]:
        """What each item became, its media written; says now and then how far it is, since a set is one batch."""
        spoke = time.monotonic()
        for start in range(0, len(ordered), _CHUNK):
            if time.monotonic() - spoke >= _SIGN_OF_LIFE_S:
                ctx.say(f"{self.label}: {start:,} of {len(ordered):,} items written")
                spoke = time.monotonic()
            for made in self.make(ordered[start : start + _CHUNK], ctx):
                try:
                    media.add(made.media)
                    yield made
                except RecordError as error:
                    yield Made(made.item, reason=error.reason)


def row_item(ref: str, *parts: Sequence[str], times: int = 1) -> Item:
    """The item of row `ref`; when side rows shape it, its id covers them, so that a new label is new work."""
    shaped = [*map(list, parts), *([times] if times > 1 else [])]
    return Item(
        id=content_id("row", ref, *shaped) if any(shaped) else ref,
        ref=ref,
        params={"times": times} if times > 1 else {},
    )


def _repeated(made: Made, times: int) -> dict[str, int]:
    """The facts of an item whose rows are written `times` times; the further copies are counted."""
    if times == 1 or not made.rows:
        return made.facts
    return {name: times * count for name, count in made.facts.items()} | {
        "resampled_items": 1,
        "repeated_rows": (times - 1) * len(made.rows),
    }


def _selection(items: Sequence[Item]) -> str:
    return scope_hash([item.id for item in items])


def _count(total: Counter[str], more: Tokens) -> Counter[str]:
    total.update(
        {"in": more.given, "out": more.written, "left_out": more.given - more.written, "trained": more.trained}
    )
    return total


def _ratio(tokens: Counter[str] | None) -> float | None:
    return round(tokens["trained"] / tokens["out"], 6) if tokens and tokens["out"] else None
