"""A batch of records to rows of `trajectories`, as far as they are plain; the others are left to the reference.

The records are read in chunks of a megabyte, which stay in the processor's cache; the columns grow over all chunks.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schemas.errors import RecordError
from tasks.normalize.columnar.facts import Facts, Judge, Wide
from tasks.normalize.columnar.made import Made
from tasks.normalize.columnar.memory import PAD, Array, address
from tasks.normalize.columnar.observe import observe_by_pattern
from tasks.normalize.columnar.plan import Prepared, prepare
from tasks.normalize.columnar.room import Room
from tasks.normalize.columnar.scan import rests, scan
from tasks.normalize.columnar.steps import assemble, observe
from tasks.normalize.columnar.tables import (
    ACTS,
    BEGIN,
    CUT,
    CUT_END,
    END,
    FIELD,
    FIRST,
    KEYS,
    KIND,
    NESTED,
    RECORD,
    START,
    STEP_END,
    STOP,
    SYSTEM,
    TAKEN,
    TURN,
    WIDE,
    WIDE_END,
    WIDE_KEY,
)
from tasks.normalize.draft import SCORE, SUCCESS
from tasks.normalize.plain import Plain
from tasks.normalize.strict import decode, decode_flat

if TYPE_CHECKING:
    from tasks.normalize.reading import Reading

CHUNK = 1 << 20
# Longer records are left to the reference reader: the room that the kernels may need is many times the record.
LONGEST = 16 << 20
# The shortest turn is {"role":"a","content":""}, or as short as the keys allow: two keys of a letter each.
_TURN = 12
# Buffers that a batch leaves for another; those that a longer record needed it keeps to itself.
_BUFFERS: Room[str, Array] = Room()
_KEPT = 8 * CHUNK


class Columns(NamedTuple):
    """The records that were taken, by place in the batch; their facts; where the steps of each end; their calls."""

    taken: list[int]
    facts: list[Facts]
    ends: Array
    acts: Array
    made: Made


def chunks_of(offsets: Array, lengths: Array) -> Iterator[tuple[int, int]]:
    """Neighbours that are read together, as (first, after the last): CHUNK bytes of them, or one longer record.

    Records beyond LONGEST are left out.
    """
    ends = offsets + lengths
    long = lengths > LONGEST
    cuts = np.flatnonzero((offsets[1:] < ends[:-1]) | long[1:] | long[:-1]) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(ends)]):
        start = last if first < last and long[first] else first
        while start < last:
            fits = int(np.searchsorted(ends[start:last], offsets[start] + CHUNK, side="right"))
            yield start, start + max(fits, 1)
            start += max(fits, 1)


class Batch:
    """Reads the plain records of one batch."""

    def __init__(self, plain: Plain, prepared: Prepared, read: "Callable[[Any], Sequence[Reading]]", size: int) -> None:
        self.plain, self.prepared = plain, prepared
        self.judge = Judge(plain, read, prepared.role)
        self.made = Made(size)
        self.buffers = _BUFFERS.take()
        self.parts: list[tuple[int, Array]] = []
        self.facts: list[Facts | None] = []

    def file(self, handle: int, first: int, offsets: Sequence[int], lengths: Sequence[int]) -> None:
        """Reads records of one file, by where they lie in it; the first of them is number `first` of the batch."""
        records = np.zeros((len(offsets), RECORD), np.int64)
        begins, sizes = np.array(offsets, np.int64), np.array(lengths, np.int64)
        records[:, BEGIN], records[:, STOP] = begins, begins + sizes
        facts: list[Facts | None] = [None] * len(records)
        for start, stop in chunks_of(begins, sizes):
            begin, end = offsets[start], offsets[stop - 1] + lengths[stop - 1]
            raw = self._buffer("raw", end - begin + PAD)
            size = os.preadv(handle, [raw.data[: end - begin]], begin)
            raw[size : end - begin + PAD] = 0
            facts[start:stop] = self._chunk(raw, size, begin, records[start:stop])
        self.parts.append((first, records))
        self.facts += facts

    def columns(self) -> Columns | None:
        """What was read, once all was; None when no record was taken."""
        _BUFFERS.give({name: held for name, held in self.buffers.items() if len(held) <= _KEPT})
        self.buffers = {}
        records = np.concatenate([part for _, part in self.parts]) if self.parts else np.zeros((0, RECORD), np.int64)
        kept = np.flatnonzero(records[:, TAKEN])
        if not len(kept):
            return None
        numbers = np.concatenate([np.arange(first, first + len(part)) for first, part in self.parts])
        facts = [one for one, taken in zip(self.facts, records[:, TAKEN].tolist(), strict=True) if taken and one]
        return Columns(numbers[kept].tolist(), facts, records[kept, STEP_END], records[kept, ACTS], self.made)

    def _chunk(self, raw: Array, size: int, begin: int, records: Array) -> list[Facts | None]:
        """Reads records that lie in `raw`, which stands at byte `begin` of their file; what they say beside turns."""
        base, count = address(raw), len(records)
        records[:, [BEGIN, STOP]] += base - begin
        room = (size // _TURN + count + 1) * TURN * 8
        turns = self._buffer("turns", room)[:room].view(np.int64).reshape(-1, TURN)
        text = self._buffer("text", size + PAD)
        rows, first, start = address(records), address(turns), address(text)
        after, used = scan(rows, count, address(self.prepared.terms), first, start)
        turns = turns[: (after - first) // (8 * TURN)]
        _check_text(raw, size, records)
        facts = self._facts(raw, records)
        text, used = _with_systems(records, turns, text, used - start, facts)
        if self.prepared.by_words:
            observe(first, after, address(self.prepared.plan))
        else:
            observe_by_pattern(turns, text, address(text), self.plain.reader.observations)
        self.made.fit(len(turns), used, self.prepared.longest)
        assemble(rows, count, address(self.prepared.plan), address(self.made.table))
        return facts

    def _buffer(self, name: str, size: int) -> Array:
        """A buffer of at least `size` bytes that this batch has under that name; what stood in it is lost."""
        held = self.buffers.get(name)
        if held is None or len(held) < size:
            held = self.buffers[name] = np.empty(max(size, CHUNK + PAD), np.uint8)
        return held

    def _facts(self, raw: Array, records: Array) -> list[Facts | None]:
        """What the records say beside their turns; those where that is the reference's to judge are not taken."""
        judge, base = self.judge.facts, address(raw)
        flat = iter(self._flat(records, len(raw)))
        found: list[Facts | None] = []
        for at, (taken, nested, field, long) in enumerate(records[:, [TAKEN, NESTED, FIELD, WIDE]].tolist()):
            facts = None
            if taken:
                record = _nested(raw.data, records[at] - base) if nested else next(flat)
                if record is not None:
                    with suppress(RecordError):
                        facts = judge(record, field, _wide(raw.data, records[at], base) if long else None)
                if facts is None:
                    records[at, TAKEN] = 0
            found.append(facts)
        return found

    def _flat(self, records: Array, size: int) -> Sequence[dict[str, Any] | None]:
        """The fields beside their turns of those that are taken and flat; None where that is the reference's to judge.

        size: of their chunk.
        """
        room = self._buffer("rests", size + 3 * len(records) + PAD)
        flat = np.flatnonzero((records[:, TAKEN] != 0) & (records[:, NESTED] == 0))
        keys = records[flat, KEYS].tolist()
        together = _decoded(records, room, keys)
        if together is not None:
            return together
        alone = (_decoded(records[at : at + 1], room, [many]) for at, many in zip(flat.tolist(), keys, strict=True))
        return [None if one is None else one[0] for one in alone]


def _decoded(records: Array, room: Array, keys: Sequence[int]) -> list[dict[str, Any]] | None:
    """What flat records say beside their turns, if each is an object of so many `keys`. room: to write to."""
    start = address(room)
    return decode_flat(room.data[: rests(address(records), len(records), start) - start], keys)


def _nested(chunk: memoryview, row: Array) -> dict[str, Any] | None:
    """The fields of a record beside its turns; None where that is the reference's to judge. row: its places in it."""
    begin, stop, cut, cut_end = row[[BEGIN, STOP, CUT, CUT_END]].tolist()
    try:
        record = decode(b"0".join((chunk[begin:cut], chunk[cut_end:stop])))
    except RecordError:
        return None
    return record.value if not record.replaced and isinstance(record.value, dict) else None


def _wide(chunk: memoryview, row: Array, base: int) -> Wide:
    """The long text of a record that has one."""
    begin, end, field = row[[WIDE, WIDE_END, WIDE_KEY]].tolist()
    return Wide(field, chunk[begin - base : end - base])


def _check_text(raw: Array, size: int, records: Array) -> None:
    """Leaves records that are no UTF-8 to the reference."""
    if size == 0 or raw[:size].max() < 128:
        return
    view, base = raw.data, address(raw)
    try:
        str(view[:size], "utf-8")
    except UnicodeDecodeError:
        for row in records:
            try:
                str(view[int(row[BEGIN]) - base : int(row[STOP]) - base], "utf-8")
            except UnicodeDecodeError:
                row[TAKEN] = 0


def batch_of(plain: Plain | None, read: "Callable[[Any], Sequence[Reading]]", size: int) -> Batch | None:
    """A reader of a batch of `size` bytes; None where an importer's records are never plain."""
    # Where a field is the turns and an outcome as well, the reference reader must see it: here something stands for it.
    if plain is None or set(plain.fields) & {*SUCCESS, *SCORE, plain.success, plain.score}:
        return None
    prepared = prepare(plain)
    return None if prepared is None else Batch(plain, prepared, read, size)


def _with_systems(
    records: Array, turns: Array, text: Array, used: int, facts: Sequence[Facts | None]
) -> tuple[Array, int]:
    """Puts texts from elsewhere into the places in front of the turns; all texts, and how much there is."""
    texts = [(at, one.system.encode()) for at, one in enumerate(facts) if one is not None and one.system is not None]
    if not texts:
        return text, used
    more = np.frombuffer(b"".join(raw for _, raw in texts) + bytes(PAD), np.uint8)
    longer = np.concatenate([text[:used], more])
    turns[:, [START, END]] += address(longer) - address(text)
    base = address(longer)
    for at, raw in texts:
        place = (records[at, FIRST] - address(turns)) // (8 * TURN)
        turns[place, KIND], turns[place, START], turns[place, END] = SYSTEM, base + used, base + used + len(raw)
        used += len(raw)
    return longer, used
