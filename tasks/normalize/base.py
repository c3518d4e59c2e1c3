"""What every importer has in common: files → records → trajectories, one planned item per record.

An item's id is the content hash of (importer and options, record bytes, occurrence among equal records), so a
file that grew is read only where it is new, and a renamed one not at all. `paths` are no part of it. A record
that can't be read becomes a dead letter with line and byte; the rest goes on.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from schemas.errors import RecordError
from schemas.ids import content_id, digest
from schemas.rows import DeadLetter, TokenSpan
from schemas.trajectory import Provenance, Trajectory
from schemas.vocabulary import Kind, Stage
from tasks.normalize.media import has_media, without_media
from tasks.normalize.seen import Seen
from tasks.normalize.source.files import File, Shape, expand, shape_of
from tasks.normalize.source.spans import Span, digest_of, read_spans, spans_of, stamp_of
from tasks.normalize.source.tables import read_rows, rows_of
from tasks.normalize.strict import Record, decode, decode_file
from tasks.operator import Effect, Item, Operator, Outcome, Pending, Plan, Result, Unit, WorkingSet, dead, drop, keep

if TYPE_CHECKING:
    from tasks.context import Context
    from tasks.normalize.plain import Plain

MAX_RECORD = 256 << 20

# Records planned at once: some 60 MB of items, decisions and ids.
PAGE = 20_000

# Records looked up at once among those seen before.
SPANS = 4096

# Source bytes read as one batch, and what a row of a table is taken for.
BATCH_BYTES, ROW_BYTES = 8 << 20, 8 << 10

# Records, or bytes of them, from which on a batch is read in bulk: below, loading the kernels costs more than they
# save; and the size of a file from which on compiling them does not (where `gristmill setup` has not done it).
BULK, BULK_BYTES, COMPILE_BYTES = 64, 1 << 20, 1 << 30


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What a reader makes of a record: a trajectory (its id and provenance still open) and its token spans.

    `parent` is the number of the reading, of the same record, that this one branches off.
    """

    trajectory: Trajectory
    spans: tuple[TokenSpan, ...] = ()
    parent: int | None = None


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
    batch_size: ClassVar[int] = 2048
    # One is committed, which only one can be at a time, while the others are read: some 50 MB each.
    at_once: ClassVar[int | None] = 3
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
        for file, item in self._items(files, ctx):
            if item is not None and len(items) == PAGE:
                at = before + items[-1].params.get("offset", 0)
                yield Plan(items=tuple(items), n_seen=len(items), share=min(at / whole, 0.99))
                items = []
            if item is None:
                before += file.path.stat().st_size
            else:
                items.append(item)
        yield Plan(items=tuple(items), n_seen=len(items))

    def _items(self, files: Sequence[File], ctx: "Context") -> Iterator[tuple[File, Item | None]]:
        """Every record of every file, and a None after each file."""
        base = content_id("record", self.fingerprint(ctx))
        # Eight bytes of the digest tell records apart here: a false "seen before" would only number a record anew.
        seen = Seen()
        for file in files:
            stamp = stamp_of(file.path)
            shape = Shape.DOCUMENT if self.takes_whole(file.path) else shape_of(file.path)
            ordinal = 0
            for block, error in _blocks(rows_of(file.path) if shape is Shape.TABLE else spans_of(file.path, shape)):
                keys = np.frombuffer(b"".join(span.digest[:8] for span in block), np.uint64)
                for span, occurrence in zip(block, seen.before(keys).tolist(), strict=True):
                    yield file, _item(base, file, shape, span, occurrence, stamp)
                    ordinal = span.ordinal
                if error is not None:
                    # What follows the damage cannot be told apart: one item for it.
                    if shape is not Shape.TABLE:
                        raise error
                    yield file, _broken(base, file, ordinal + 1, stamp, error)
            yield file, None

    def plain(self, ctx: "Context") -> "Plain | None":
        """How records that are plain chats are written, where this format has such; they are read without objects."""
        return None

    def batches(self, items: Sequence[Item]) -> list[Sequence[Item]]:
        """At most `batch_size` records, or about BATCH_BYTES of them: a commit costs as much as reading a megabyte."""
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
        before = _as_planned(items, ctx)
        if self._in_bulk(items, ctx):
            from tasks.normalize.columnar.result import read_batch

            result = read_batch(self, items, ctx)
        else:
            result = self.run_reference(items, ctx)
        if before <= _as_planned(items, ctx):
            return result
        # A file changed under the reading. Now that its stamp says so, each record is known by its own hash.
        return self.run_reference(items, ctx)

    def _in_bulk(self, items: Sequence[Item], ctx: "Context") -> bool:
        """Whether a batch may hold plain records, enough to be worth the kernels."""
        if not items or self.plain(ctx) is None or any("row" in item.params for item in items):
            return False
        if len(items) < BULK and sum(item.params["length"] for item in items) < BULK_BYTES:
            return False
        from tasks.normalize.columnar.warm import compiled

        file = ctx.path(items[0].params["file"])
        return file.is_file() and (compiled() or file.stat().st_size >= COMPILE_BYTES)

    def run_reference(self, items: Sequence[Item], ctx: "Context") -> Result:
        """Reads the records of a batch one by one."""
        outcomes: list[Outcome] = []
        dead_letters: list[DeadLetter] = []
        pending: list[Pending] = []
        trajectories: list[Trajectory] = []
        token_spans: list[TokenSpan] = []
        base = content_id("record", self.fingerprint(ctx))
        for item, record in self._records(items, base, ctx):
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
                made = _linked(readings, made)
            trajectories.extend(made)
            for reading, trajectory in zip(readings, made, strict=True):
                if reading.spans:
                    token_spans.extend(_spans(reading.spans, trajectory.id))
            outcomes.append(keep(item, outputs=tuple(trajectory.id for trajectory in made)))
        return Result(
            outcomes=tuple(outcomes),
            rows={"trajectories": trajectories, "token_spans": token_spans},
            dead=tuple(dead_letters),
            pending=tuple(pending),
        )

    def _records(
        self, items: Sequence[Item], base: str, ctx: "Context"
    ) -> Iterator[tuple[Item, Record | RecordError | Pending]]:
        first = 0
        while first < len(items):
            last = first + 1
            while last < len(items) and items[last].params["file"] == items[first].params["file"]:
                last += 1
            group = items[first:last]
            path = ctx.path(group[0].params["file"])
            if not path.is_file():
                yield from ((item, Pending(item_id=item.id, reason="file_gone")) for item in group)
            elif "row" in group[0].params:
                yield from _rows(path, group)
            else:
                yield from self._texts(path, group, base)
            first = last

    def _texts(
        self, path: Path, group: Sequence[Item], base: str
    ) -> Iterator[tuple[Item, Record | RecordError | Pending]]:
        trusted = stamp_of(path) == group[0].params["stamp"]
        short = [item for item in group if item.params["length"] <= MAX_RECORD]
        pieces = read_spans(path, [(item.params["offset"], item.params["length"]) for item in short])
        for item in group:
            if item.params["length"] > MAX_RECORD:
                yield item, RecordError("too_long", f"{item.params['length']} bytes, the limit is {MAX_RECORD}")
                continue
            piece = next(pieces)
            if not trusted and item.id != _id(base, digest_of(piece.raw), item.params.get("n", 0)):
                yield item, Pending(item_id=item.id, reason="file_changed")
                continue
            try:
                whole = item.params.get("shape") == Shape.DOCUMENT and self.takes_whole(path)
                yield item, self.decode_whole(bytes(piece.raw)) if whole else decode(piece.raw, piece.marks)
            except RecordError as error:
                yield item, error

    def _whole(self, item: Item, number: int, trajectory: Trajectory, record: Record) -> Trajectory:
        """The trajectory under its id and with the whole provenance."""
        own = trajectory.provenance
        file, _, ordinal = item.ref.rpartition(":")
        return msgspec.structs.replace(
            trajectory,
            id=digest(f"trajectory\n{item.id}\n{number}"),
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


def _as_planned(items: Sequence[Item], ctx: "Context") -> set[str]:
    """The files of a batch that are still the ones that were planned."""
    files = {item.params["file"]: item.params["stamp"] for item in items}
    return {file for file, stamp in files.items() if (path := ctx.path(file)).is_file() and stamp_of(path) == stamp}


def _linked(readings: Sequence[Reading], made: list[Trajectory]) -> list[Trajectory]:
    """The trajectories of one record with their links to each other under the ids they have here."""
    by_source = {row.source_id: row.id for row in made if row.source_id is not None}
    linked: list[Trajectory] = []
    for reading, row in zip(readings, made, strict=True):
        parents = row.parents if reading.parent is None else (*row.parents, made[reading.parent].id)
        links = tuple(
            msgspec.structs.replace(link, trajectory_id=by_source.get(link.trajectory_id, link.trajectory_id))
            for link in row.subagents
        )
        linked.append(msgspec.structs.replace(row, parents=parents, subagents=links))
    return linked


def _spans(spans: Sequence[TokenSpan], trajectory_id: str) -> list[TokenSpan]:
    return [
        msgspec.structs.replace(
            span, id=content_id("span", trajectory_id, span.step, order), trajectory_id=trajectory_id
        )
        for order, span in enumerate(spans)
    ]


def _rows(path: Path, group: Sequence[Item]) -> Iterator[tuple[Item, Record | RecordError | Pending]]:
    if stamp_of(path) != group[0].params["stamp"]:
        yield from ((item, Pending(item_id=item.id, reason="file_changed")) for item in group)
        return
    for item in group:
        if "broken" in item.params:
            yield item, RecordError("unreadable_table", f"this row and all after it: {item.params['broken']}")
    ordered = sorted((item for item in group if "broken" not in item.params), key=lambda item: item.params["row"])
    rows = read_rows(path, [item.params["row"] for item in ordered])
    for item in ordered:
        yield item, Record(next(rows))


def _blocks(spans: Iterator[Span]) -> Iterator[tuple[list[Span], Exception | None]]:
    """The records of a file, SPANS at a time, and the error that ended them."""
    while True:
        block: list[Span] = []
        try:
            block.extend(islice(spans, SPANS))
        except (ValueError, OverflowError, OSError) as error:
            # Arrow's own errors are ValueErrors.
            yield block, error
            return
        yield block, None
        if len(block) < SPANS:
            return


@lru_cache(maxsize=8)
def _prefix(base: str) -> bytes:
    return f"item\n{base}\n".encode()


def _id(base: str, record: bytes, occurrence: int) -> str:
    # `schemas.ids.digest`, without its way through text: this is done for every record of every file.
    data = _prefix(base) + record if not occurrence else _prefix(base) + record + b"\n%d" % occurrence
    return blake2b(data, digest_size=16).hexdigest()


def _item(base: str, file: File, shape: Shape, span: Span, occurrence: int, stamp: str) -> Item:
    params: dict[str, Any] = {"file": str(file.path), "stamp": stamp}
    if shape is Shape.TABLE:
        params["row"] = span.offset
    else:
        params["offset"], params["length"] = span.offset, span.length
        if occurrence:
            params["n"] = occurrence
        if shape is not Shape.LINES:
            params["shape"] = shape.value
    return Item(id=_id(base, span.digest, occurrence), ref=f"{file.name}:{span.ordinal}", params=params)


def _broken(base: str, file: File, ordinal: int, stamp: str, error: Exception) -> Item:
    """The rest of a table that cannot be read on: one item, which becomes a dead letter."""
    why = f"{type(error).__name__}: {error}"[:500]
    params = {"file": str(file.path), "stamp": stamp, "row": ordinal - 1, "broken": why}
    key = digest(f"{base}\n{file.name}\n{stamp}\n{ordinal}\nbroken")
    return Item(id=key, ref=f"{file.name}:{ordinal}", params=params)


def _dead(item: Item, error: RecordError) -> DeadLetter:
    file, _, ordinal = item.ref.rpartition(":")
    if "row" in item.params:
        place = f"row {ordinal}"
    else:
        place = f"{'record' if 'shape' in item.params else 'line'} {ordinal}, byte {item.params['offset']}"
    return dead(item, Stage.NORMALIZE, error.reason, error.detail, source=file, position=place)
