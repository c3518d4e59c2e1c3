"""A batch of records to rows of `trajectories`, as far as they are plain; the others are left to the reference.

The records are read in chunks of a megabyte, which stay in the processor's cache; the columns grow over all chunks.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from schemas.errors import RecordError
from tasks.normalize.columnar.facts import Facts, Judge, Wide
from tasks.normalize.columnar.made import Made
from tasks.normalize.columnar.memory import PAD, Array, address
from tasks.normalize.columnar.observe import observe_by_pattern
from tasks.normalize.columnar.plan import Prepared, prepare
from tasks.normalize.columnar.room import Room
from tasks.normalize.columnar.scan import scan
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
from tasks.normalize.plain import Plain
from tasks.normalize.strict import decode, decode_flat

if TYPE_CHECKING:
    from tasks.normalize.reading import Reading

CHUNK = 1 << 20
# Longer records are left to the reference reader: the room that the kernels may need is many times the record.
LONGEST = 16 << 20
# The shortest turn is {"role":"a","content":""}, or as short as the keys allow: two keys of a letter each.
_TURN = 12
# What `_facts` looks at: places in the chunk, and other numbers.
_PLACES, _MARKS = [BEGIN, CUT, CUT_END, STOP, WIDE, WIDE_END], [TAKEN, KEYS, FIELD, NESTED, WIDE_KEY]
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


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a record lies in its file."""

    offset: int
    length: int


class Batch:
    """Reads the plain records of one batch."""

    def __init__(self, plain: Plain, prepared: Prepared, read: "Callable[[Any], Sequence[Reading]]", size: int) -> None:
        self.plain, self.prepared = plain, prepared
        self.judge = Judge(plain, read, prepared.role)
        self.made = Made(size)
        self.buffers = _BUFFERS.take()
        self.taken: list[int] = []
        self.facts: list[Facts] = []
        self.ends: list[Array] = []
        self.acts: list[Array] = []

    def file(self, handle: int, first: int, places: Sequence[Place]) -> None:
        """Reads records of one file; the first of them is number `first` of the batch."""
        start = 0
        while start < len(places):
            if places[start].length > LONGEST:
                start += 1
                continue
            begin, stop = places[start].offset, start + 1
            end = begin + places[start].length
            while stop < len(places):
                place = places[stop]
                after = place.offset + place.length
                if place.offset < end or after - begin > CHUNK:
                    break
                end = after
                stop += 1
            raw = self._buffer("raw", end - begin + PAD)
            size = os.preadv(handle, [raw.data[: end - begin]], begin)
            raw[size : end - begin + PAD] = 0
            self._chunk(raw, size, first + start, begin, places[start:stop])
            start = stop

    def columns(self) -> Columns | None:
        """What was read, once all was; None when no record was taken."""
        _BUFFERS.give({name: held for name, held in self.buffers.items() if len(held) <= _KEPT})
        self.buffers = {}
        if not self.taken:
            return None
        return Columns(self.taken, self.facts, np.concatenate(self.ends), np.concatenate(self.acts), self.made)

    def _chunk(self, raw: Array, size: int, first: int, begin: int, places: Sequence[Place]) -> None:
        base, count = address(raw), len(places)
        records = np.empty((count, RECORD), np.int64)
        records[:, BEGIN] = [place.offset for place in places]
        records[:, STOP] = [place.length for place in places]
        records[:, BEGIN] += base - begin
        records[:, STOP] += records[:, BEGIN]
        room = (size // _TURN + count + 1) * TURN * 8
        turns = self._buffer("turns", room)[:room].view(np.int64).reshape(-1, TURN)
        text = self._buffer("text", size + PAD)
        after, used = scan(address(records), count, address(self.prepared.terms), address(turns), address(text))
        turns = turns[: (after - address(turns)) // (8 * TURN)]
        _check_text(raw, size, records)
        facts = self._facts(raw, records)
        text, used = _with_systems(records, turns, text, used - address(text), facts)
        if self.prepared.by_words:
            observe(address(turns), after, address(self.prepared.plan))
        else:
            observe_by_pattern(turns, text, address(text), self.plain.reader.observations)
        self.made.fit(len(turns), used, self.prepared.longest)
        assemble(address(records), count, address(self.prepared.plan), address(self.made.table))
        kept = np.flatnonzero(records[:, TAKEN])
        self.taken.extend((kept + first).tolist())
        self.facts.extend([one for at in kept.tolist() if (one := facts[at]) is not None])
        self.ends.append(records[kept, STEP_END])
        self.acts.append(records[kept, ACTS])

    def _buffer(self, name: str, size: int) -> Array:
        """A buffer of at least `size` bytes that this batch has under that name; what stood in it is lost."""
        held = self.buffers.get(name)
        if held is None or len(held) < size:
            held = self.buffers[name] = np.empty(max(size, CHUNK + PAD), np.uint8)
        return held

    def _facts(self, raw: Array, records: Array) -> list[Facts | None]:
        """What the records say beside their turns; those where that is the reference's to judge are not taken."""
        view, judge = raw.data, self.judge.facts
        places = (records[:, _PLACES] - address(raw)).tolist()
        found: list[Facts | None] = []
        for (begin, cut, cut_end, stop, start, end), (taken, keys, field, nested, number) in zip(
            places, records[:, _MARKS].tolist(), strict=True
        ):
            facts = wide = None
            if taken:
                if nested or start < 0:
                    pieces = [view[begin:cut], view[cut_end:stop]]
                else:
                    wide = Wide(number, view[start:end])
                    before = start < cut
                    pieces = [view[begin:start], view[end:cut]] if before else [view[begin:cut], view[cut_end:start]]
                    pieces.append(view[cut_end:stop] if before else view[end:stop])
                rest = b"0".join(pieces)
                record = _nested(rest) if nested else decode_flat(rest, keys)
                if record is not None:
                    try:
                        facts = judge(record, field, wide)
                    except RecordError:
                        facts = None
            found.append(facts)
        records[:, TAKEN] = [facts is not None for facts in found]
        return found


def _nested(rest: bytes) -> dict[str, Any] | None:
    """The fields of a record beside its turns; None where that is the reference's to judge."""
    try:
        record = decode(rest)
    except RecordError:
        return None
    return record.value if not record.replaced and isinstance(record.value, dict) else None


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
    prepared = None if plain is None else prepare(plain)
    return None if plain is None or prepared is None else Batch(plain, prepared, read, size)


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
