"""What the kernels write: flat columns of steps, calls and results, with the bytes of their texts side by side."""

import weakref

import numpy as np
import pyarrow as pa

from tasks.normalize.columnar.memory import (
    PAD,
    Array,
    address,
    copy,
    get,
    inner,
    lowest,
    move,
    peek,
    poke,
    put,
    quoting,
)
from tasks.normalize.columnar.room import Room

# Texts: of the steps' parts, of the results' parts, ids, names, raw arguments and JSON of the calls, names of the
# results' tools; room for a text that is put together. The table holds where each begins and where it is written on.
CONTENT, SAID, IDS, NAMES, RAW, JSON, TOOLS, SPARE = range(8)
# Counters in the table.
STEPS, PARTS, CALLS, RESULTS, ANSWERS = range(16, 21)
# Columns of numbers. Of steps: kind (see `tables`), whether inferred, where their parts, calls and results end. Of
# parts: where their text ends. Of calls: where id, name, raw arguments and JSON end. Of results: the call they answer
# (-1: none), how they were paired, whether they name a tool, where its name and their parts end. Of the results'
# parts: where their text ends.
(
    SOURCE, INFERRED, PART_ENDS, CALL_ENDS, RESULT_ENDS, CONTENT_ENDS, ID_ENDS, NAME_ENDS, RAW_ENDS, JSON_ENDS,
    ANSWERED, PAIRED, NAMED, TOOL_ENDS, ANSWER_ENDS, SAID_ENDS,
) = range(24, 40)  # fmt: skip
# Where the text before the calls ends, and a number that belongs to the one who writes it; parameters of a call.
LEAD, SPANS, MANY_SPANS = 21, 72, 64
_SIZE, _SAVED, _COUNTED = SPANS + 4 * (MANY_SPANS + 1), 40, 21
_ROWS = {
    STEPS: (SOURCE, INFERRED, PART_ENDS, CALL_ENDS, RESULT_ENDS),
    PARTS: (CONTENT_ENDS,),
    CALLS: (ID_ENDS, NAME_ENDS, RAW_ENDS, JSON_ENDS),
    RESULTS: (ANSWERED, PAIRED, NAMED, TOOL_ENDS, ANSWER_ENDS),
    ANSWERS: (SAID_ENDS,),
}
# How a result found its call.
BY_NAME, BY_ORDER, BY_NONE = range(3)
# What share of the records' bytes a text has at most, as a rule; of the others a sixteenth will do. Room that is not
# written to is free.
_SHARE = {CONTENT: 1, SAID: 1, RAW: 8, JSON: 8}
# The room that a batch leaves for another, at most: that of BATCH_BYTES is 70 MB, of which a third is ever written to.
_KEPT = 96 << 20
_ROOMS: Room[str, dict[int, Array]] = Room()


class Held:
    """Stands for a batch's room: when nothing refers to it any more, the room is free for another batch."""


def _give_back(texts: dict[int, Array], columns: dict[int, Array]) -> None:
    if sum(held.nbytes for held in (*texts.values(), *columns.values())) <= _KEPT:
        _ROOMS.give({"texts": texts, "columns": columns})


class Made:
    """The columns; they grow as chunks of records come. Columns of ends have one place more than rows, the first 0.

    Arrays of it are valid as long as it is there; Arrow gets them as `buffer`.
    """

    def __init__(self, size: int) -> None:
        """Size: how many bytes of records are to come."""
        self.expected = size
        self.table = np.zeros(_SIZE, np.int64)
        room = _ROOMS.take()
        self.texts, self.columns = room.get("texts", {}), room.get("columns", {})
        self.held = Held()
        weakref.finalize(self.held, _give_back, self.texts, self.columns).atexit = False
        for text, held in self.texts.items():
            self.table[2 * text : 2 * text + 2] = address(held)
        for column, held in self.columns.items():
            self.table[column] = address(held)
            held[0] = 0

    def count(self, rows: int) -> int:
        """How many steps, parts, calls … there are."""
        return int(self.table[rows])

    def size(self, text: int) -> int:
        """How many bytes of a text there are."""
        return int(self.table[2 * text + 1] - self.table[2 * text])

    def column(self, rows: int, column: int, more: int = 0) -> Array:
        """A column of numbers. more: 1 for a column of ends."""
        return self.columns[column][: self.count(rows) + more]

    def text(self, text: int) -> Array:
        """The bytes of a text."""
        return self.texts[text][: self.size(text)]

    def fit(self, turns: int, size: int, name: int) -> None:
        """Makes room for what `turns` turns with `size` bytes of text can give at most.

        name: the length of the longest tool name that does not stand in the text.
        """
        # The shortest call is "<a></a>"; the longest id, of a record of 16 MB, "s1234567c1234567".
        calls = turns + size // 7
        texts = {IDS: 16 * calls, NAMES: size + name * calls, JSON: 6 * size + 16 * calls}
        table = self.table.tolist()
        for text in range(8):
            used = table[2 * text + 1] - table[2 * text]
            room, held = texts.get(text, size) + PAD, self.texts.get(text)
            if held is None or used + room > len(held):
                self.texts[text] = _grown(held, used, room, self.expected // _SHARE.get(text, 16), np.uint8)
                self.table[2 * text] = address(self.texts[text])
                self.table[2 * text + 1] = self.table[2 * text] + used
        for rows, columns in _ROWS.items():
            used, most = table[rows] + 1, {PARTS: 2 * turns, CALLS: calls}.get(rows, turns) + 1
            for column in columns:
                old = self.columns.get(column)
                if old is None or used + most > len(old):
                    self.columns[column] = _grown(old, used, most, self.expected // 256, np.int64)
                    self.table[column] = address(self.columns[column])

    def buffer(self, array: Array) -> pa.Buffer:
        """Part of a column or a text for Arrow, not copied: while it is used, no other batch gets this one's room."""
        return pa.foreign_buffer(address(array), array.nbytes, self.held)


def _grown(held: Array | None, used: int, more: int, expected: int, kind: type) -> Array:
    """An array with room for `more` than the `used` elements of `held`; the first one for what is expected as well."""
    room = used + more + expected if held is None else max(used + more, 2 * len(held))
    made: Array = np.empty(room, kind)
    if held is None:
        made[:used] = 0
    else:
        made[:used] = held[:used]
    return made


@inner
def save(made: int) -> None:
    """Remembers how far everything is written."""
    for place in range(_COUNTED):
        put(made, _SAVED + place, get(made, place))


@inner
def restore(made: int) -> None:
    """Forgets what was written since `save`."""
    for place in range(_COUNTED):
        put(made, place, get(made, _SAVED + place))


@inner
def tail(made: int, text: int) -> int:
    """Where a text is written on."""
    return get(made, 2 * text + 1)


@inner
def set_tail(made: int, text: int, at: int) -> None:
    """Says where a text is written on."""
    put(made, 2 * text + 1, at)


@inner
def append(made: int, text: int, start: int, end: int) -> None:
    """Writes the bytes from `start` to `end` to a text."""
    set_tail(made, text, copy(tail(made, text), start, end))


@inner
def append_word(made: int, text: int, words: int, number: int) -> None:
    """Writes a word to a text."""
    begin = get(words, 2 * number)
    append(made, text, begin, begin + get(words, 2 * number + 1))


@inner
def set_end(made: int, column: int, row: int, text: int) -> None:
    """Notes in a column that the text of a row ends here; rows count from 1."""
    put(get(made, column), row, get(made, 2 * text + 1) - get(made, 2 * text))


@inner
def next_row(made: int, rows: int) -> int:
    """One row more: its number, from 1."""
    row = get(made, rows) + 1
    put(made, rows, row)
    return row


@inner
def _short(byte: int) -> int:
    """The letter of a short escape, or 0."""
    if byte == 10:
        return 110
    if byte == 34 or byte == 92:
        return byte
    if byte == 9:
        return 116
    if byte == 13:
        return 114
    if byte == 8:
        return 98
    if byte == 12:
        return 102
    return 0


@inner
def escape(to: int, start: int, end: int) -> int:
    """Writes a text as JSON text without quotes; where it ends."""
    while start < end:
        move(to, start)
        mask = quoting(start)
        step = 32 if mask == 0 else lowest(mask)
        if start + step >= end:
            return to + end - start
        start += step
        to += step
        if mask == 0:
            continue
        byte = peek(start)
        to = poke(to, 92)
        short = _short(byte)
        if short:
            to = poke(to, short)
        else:
            low = byte & 15
            to = poke(poke(poke(to, 117), 48), 48)
            to = poke(poke(to, 48 + (byte >> 4)), low + (48 if low < 10 else 87))
        start += 1
    return to


@inner
def add_part(made: int, start: int, end: int) -> None:
    """One more text part of the step that is being made."""
    append(made, CONTENT, start, end)
    set_end(made, CONTENT_ENDS, next_row(made, PARTS), CONTENT)


@inner
def add_step(made: int, kind: int, inferred: int) -> None:
    """Closes a step: its parts, calls and results are what was added since the last one."""
    row = next_row(made, STEPS)
    put(get(made, SOURCE), row - 1, kind)
    put(get(made, INFERRED), row - 1, inferred)
    put(get(made, PART_ENDS), row, get(made, PARTS))
    put(get(made, CALL_ENDS), row, get(made, CALLS))
    put(get(made, RESULT_ENDS), row, get(made, RESULTS))


@inner
def _decimal(to: int, number: int) -> int:
    digits, top = 1, 10
    while number >= top:
        digits += 1
        top *= 10
    for place in range(digits):
        poke(to + digits - 1 - place, 48 + number % 10)
        number //= 10
    return to + digits


@inner
def add_call(made: int, step: int, index: int) -> None:
    """Closes a call whose name, raw arguments and JSON are written; its id is "s<step>c<index>"."""
    to = _decimal(poke(tail(made, IDS), 115), step)
    set_tail(made, IDS, _decimal(poke(to, 99), index))
    row = next_row(made, CALLS)
    set_end(made, ID_ENDS, row, IDS)
    set_end(made, NAME_ENDS, row, NAMES)
    set_end(made, RAW_ENDS, row, RAW)
    set_end(made, JSON_ENDS, row, JSON)


@inner
def add_single(
    made: int, step: int, index: int, words: int, key: int, raw: int, raw_end: int, start: int, end: int
) -> None:
    """A call whose name is written: its raw arguments, and a text that is its only one. key: the word `{"KEY":"`."""
    append(made, RAW, raw, raw_end)
    append_word(made, JSON, words, key)
    set_tail(made, JSON, poke(poke(escape(tail(made, JSON), start, end), 34), 125))
    add_call(made, step, index)


@inner
def add_answer(made: int, start: int, end: int) -> None:
    """A text part of the result that is being made."""
    append(made, SAID, start, end)
    set_end(made, SAID_ENDS, next_row(made, ANSWERS), SAID)


@inner
def add_result(made: int, start: int, end: int) -> None:
    """Closes a result of the tool that a text names (start 0: none), which answers no call so far."""
    row = next_row(made, RESULTS)
    put(get(made, ANSWERED), row - 1, -1)
    put(get(made, PAIRED), row - 1, BY_NONE)
    put(get(made, NAMED), row - 1, 1 if start > 0 else 0)
    if start > 0:
        append(made, TOOLS, start, end)
    set_end(made, TOOL_ENDS, row, TOOLS)
    put(get(made, ANSWER_ENDS), row, get(made, ANSWERS))
