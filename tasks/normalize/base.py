"""What every importer has in common: files → records → trajectories, one planned item per record.

An item's id is the content hash of (importer and options, record bytes, occurrence among equal records), so a
file that grew is read only where it is new, and a renamed one not at all. `paths` are no part of it. The first
trajectory of a record has its id. A record that can't be read becomes a dead letter with line and byte; the rest
goes on.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from schemas.errors import RecordError
from schemas.ids import content_id, digest
from schemas.rows import DeadLetter, TokenSpan
from schemas.trajectory import Provenance, Trajectory
from schemas.vocabulary import Kind, Stage
from tasks.normalize.media import has_media, without_media
from tasks.normalize.planning import items_of
from tasks.normalize.reading import Reading, linked, own_spans
from tasks.normalize.records import as_planned, records_of
from tasks.normalize.source.files import expand
from tasks.normalize.strict import Record, decode_file
from tasks.operator import Effect, Item, Operator, Outcome, Pending, Plan, Result, Unit, WorkingSet, dead, drop, keep

if TYPE_CHECKING:
    from tasks.context import Context
    from tasks.normalize.plain import Plain

# Records planned at once: some 60 MB of items, decisions and ids.
PAGE = 20_000

# Source bytes read as one batch, and what a row of a table is taken for.
BATCH_BYTES, ROW_BYTES = 16 << 20, 8 << 10

# Records, or bytes of them, from which on a batch is read in bulk: below, loading the kernels costs more than they
# save; and the size of a file from which on compiling them does not (where `gristmill setup` has not done it).
BULK, BULK_BYTES, COMPILE_BYTES = 64, 1 << 20, 1 << 30


class Importer(Operator, frozen=True, kw_only=True):
    """Base of importers. A subclass defines `read`, and its options.

    paths: files, folders or globs, relative to the recipe. dataset, revision, split, licence: what provenance says.
    drop_fields: further top-level fields of a record to leave out (and name as lost) instead of keeping them in
    the trajectory's `extra_json`.
    """

    kind: ClassVar[Kind] = Kind.IMPORTER
    stage: ClassVar[Stage] = Stage.NORMALIZE
    reads: ClassVar[Unit] = "record"
    effect: ClassVar[Effect] = "add"
    # 2: records are hashed by BLAKE3. 3: a record's first trajectory has the record's id.
    version: ClassVar[int] = 3
    batch_size: ClassVar[int] = 4096
    # One is committed, which takes longer than reading, while the other is read: some 100 MB each.
    at_once: ClassVar[int | None] = 2
    inert: ClassVar[frozenset[str]] = frozenset({"paths"})
    paths: tuple[str, ...]
    dataset: str | None = None
    revision: str | None = None
    split: str | None = None
    licence: str | None = None
    drop_fields: tuple[str, ...] = ()

    def read(self, record: Any) -> Sequence[Reading]:
        """The trajectories of one record (JSON data; of a whole file, see `decode_whole`).

        Ids, and provenance apart from `lost_fields` and `record`, are filled in by the caller. Raises RecordError.
        """
        raise NotImplementedError(f"{type(self).__name__} must define read()")

    def takes_whole(self, path: Path) -> bool:
        """Whether the file as a whole is one record (a session log), not each line, element or row of it."""
        return False

    def decode_whole(self, raw: bytes) -> Record:
        """The value of a file that is one record: its lines as a list where it is JSONL, else what it holds."""
        return decode_file(raw)

    def refuse_early(self, folder: Path) -> None:
        """Refuses paths that name no data file."""
        expand(self.paths, folder)

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """All parts of the plan as one."""
        items = tuple(item for page in self.pages(inputs, ctx) for item in page.items)
        return Plan(items=items, n_seen=len(items))

    def pages(self, inputs: WorkingSet, ctx: "Context") -> Iterator[Plan]:
        """One item a record, PAGE at a time. One pass over every file, at the speed of hashing it."""
        files = expand(self.paths, ctx.recipe_dir)
        whole = sum(file.path.stat().st_size for file in files) or 1
        before, items = 0, list[Item]()
        for file, more in items_of(files, content_id("record", self.fingerprint(ctx)), self.takes_whole):
            if more is None:
                before += file.path.stat().st_size
                continue
            items += more
            while len(items) > PAGE:
                at = before + items[PAGE - 1].params.get("offset", 0)
                yield Plan(items=tuple(items[:PAGE]), n_seen=PAGE, share=min(at / whole, 0.99))
                items = items[PAGE:]
        yield Plan(items=tuple(items), n_seen=len(items))

    def plain(self, ctx: "Context") -> "Plain | None":
        """How records that are plain chats are written, where this format has such; they are read without objects."""
        return None

    def batches(self, items: Sequence[Item]) -> list[Sequence[Item]]:
        """At most `batch_size` records, or about BATCH_BYTES of them: a commit costs as much as reading megabytes."""
        cut: list[Sequence[Item]] = []
        first = held = 0
        for at, item in enumerate(items):
            length = item.params.get("length", ROW_BYTES)
            if at > first and (held + length > BATCH_BYTES or at - first == self.batch_size):
                cut.append(items[first:at])
                first, held = at, 0
            held += length
        return [*cut, items[first:]] if items else cut

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Reads the records of a batch: plain ones in bulk where that pays, all others one by one."""
        before = as_planned(items, ctx.path)
        if self._in_bulk(items, ctx):
            from tasks.normalize.columnar.result import read_batch

            result = read_batch(self, items, ctx)
        else:
            result = self.run_reference(items, ctx)
        if before <= as_planned(items, ctx.path):
            return result
        # A file changed under the reading. Now that its stamp says so, each record is known by its own hash.
        return self.run_reference(items, ctx)

    def _in_bulk(self, items: Sequence[Item], ctx: "Context") -> bool:
        """Whether a batch may hold plain records, enough to be worth the kernels."""
        if not items or self.plain(ctx) is None or any("row" in item.params for item in items):
            return False
        if len(items) < BULK and sum(item.params["length"] for item in items) < BULK_BYTES:
            return False
        from tasks.normalize.columnar.compiled import ready

        file = ctx.path(items[0].params["file"])
        return file.is_file() and (ready() or file.stat().st_size >= COMPILE_BYTES)

    def run_reference(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Reads the records of a batch one by one."""
        outcomes: list[Outcome] = []
        dead_letters: list[DeadLetter] = []
        pending: list[Pending] = []
        trajectories: list[Trajectory] = []
        token_spans: list[TokenSpan] = []
        base = content_id("record", self.fingerprint(ctx))
        for item, record in records_of(items, base, ctx.path, self):
            if isinstance(record, Pending):
                pending.append(record)
                continue
            try:
                if isinstance(record, RecordError):
                    raise record
                readings = self.read(record.value)
                if has_media(readings):
                    readings = without_media(readings, ctx.lake, ctx.path(item.params["file"]).parent)
            except RecordError as error:
                dead_letters.append(_dead(item, error))
                continue
            if not readings:
                outcomes.append(drop(item, "no_steps"))
                continue
            made = [self._whole(item, number, reading.trajectory, record) for number, reading in enumerate(readings)]
            if len(made) > 1:
                made = linked(readings, made)
            trajectories.extend(made)
            for reading, trajectory in zip(readings, made, strict=True):
                if reading.spans:
                    token_spans.extend(own_spans(reading.spans, trajectory.id))
            outcomes.append(keep(item, outputs=tuple(trajectory.id for trajectory in made)))
        return Result(
            outcomes=tuple(outcomes),
            rows={"trajectories": trajectories, "token_spans": token_spans},
            dead=tuple(dead_letters),
            pending=tuple(pending),
        )

    def _whole(self, item: Item, number: int, trajectory: Trajectory, record: Record) -> Trajectory:
        """The trajectory, the first of its record under the record's id, and with the whole provenance."""
        own = trajectory.provenance
        file, _, ordinal = item.ref.rpartition(":")
        return msgspec.structs.replace(
            trajectory,
            id=digest(f"trajectory\n{item.id}\n{number}") if number else item.id,
            provenance=Provenance(
                dataset=self.dataset,
                revision=self.revision,
                split=self.split,
                file=file,
                record=own.record or ordinal,
                reader=self.plugin_id(),
                reader_version=str(self.version),
                licence=self.licence or own.licence,
                lost_fields=own.lost_fields + record.lost,
                replaced_text=own.replaced_text + record.replaced,
            ),
        )


def _dead(item: Item, error: RecordError) -> DeadLetter:
    file, _, ordinal = item.ref.rpartition(":")
    if "row" in item.params:
        place = f"row {ordinal}"
    else:
        place = f"{'record' if 'shape' in item.params else 'line'} {ordinal}, byte {item.params['offset']}"
    return dead(item, Stage.NORMALIZE, error.reason, error.detail, source=file, position=place)
