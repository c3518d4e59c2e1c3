"""Raw JSON records to the turns of a chat: one pass over the bytes, which unescapes roles and texts.

Only what is certain is taken: an object with one list of turns, each turn an object of exactly a known role and a
text, all of it well-formed. Any other record is left to the reference reader, which knows the reasons. The rest of a
taken record (everything but the list) is not judged here: the caller decodes it strictly.
"""

from tasks.normalize.columnar.blocks import has_blocks, unescape_block
from tasks.normalize.columnar.memory import copy, count_bits, get, inner, kernel, lowest, move, peek, poke, put, quoting
from tasks.normalize.columnar.tables import (
    BEGIN,
    CUT,
    CUT_END,
    END,
    FIELD,
    FIELD_COUNT,
    FIELDS,
    FIRST,
    KEY_WORDS,
    KEYS,
    KIND,
    KINDS,
    LAST,
    NESTED,
    NOTHING,
    ODD,
    RECORD,
    ROLE_COUNT,
    ROLES,
    START,
    STOP,
    TAKEN,
    TURN,
    WIDE,
    WIDE_END,
    WIDE_KEY,
)
from tasks.normalize.columnar.words import word_at

_QUOTE, _SLASH, _COLON, _COMMA = 34, 92, 58, 44
_OPEN, _CLOSE, _LIST, _UNLIST, _ZERO = 123, 125, 91, 93, 48
# The bytes from which on a text is worth being taken as it stands, and up to which none is too long to be kept.
_WIDE, _LONG = 256, 65_536


@inner
def _gap(at: int) -> int:
    """The place of the next byte that is no white space."""
    while peek(at) == 32 or peek(at) == 10 or peek(at) == 13 or peek(at) == 9:
        at += 1
    return at


@inner
def _plain(at: int) -> int:
    """The closing quote of a string without escapes that begins at `at`, or -1."""
    mask = quoting(at)
    while mask == 0:
        at += 32
        mask = quoting(at)
    at += lowest(mask)
    return at if peek(at) == _QUOTE else -1


@inner
def _past(at: int) -> int:
    """The place after the string that begins at `at` (behind its quote), or -1."""
    while True:
        mask = quoting(at)
        if mask == 0:
            at += 32
            continue
        at += lowest(mask)
        if peek(at) == _QUOTE:
            return at + 1
        if peek(at) != _SLASH or peek(at + 1) < 32:
            return -1
        at += 2


@inner
def _escaped(byte: int) -> int:
    """What a backslash before `byte` stands for, or -1."""
    if byte == 110:
        return 10
    if byte == 34 or byte == 92 or byte == 47:
        return byte
    if byte == 116:
        return 9
    if byte == 114:
        return 13
    if byte == 98:
        return 8
    if byte == 102:
        return 12
    return -1


@inner
def _is_wide(begin: int, end: int) -> bool:
    """Whether a value is a long text, and what `msgspec.json.encode` gives for it: with the shortest escapes alone."""
    if end - begin < _WIDE or end - begin > _LONG or peek(begin) != _QUOTE:
        return False
    at = begin + 1
    while True:
        mask = quoting(at)
        if mask == 0:
            at += 32
        else:
            at += lowest(mask)
        if at >= end - 1:
            return True
        if mask != 0:
            byte = peek(at + 1)
            if peek(at) != _SLASH or byte == 47 or _escaped(byte) < 0:
                return False
            at += 2


@inner
def _value(at: int) -> tuple[int, int]:
    """The place after the value at `at` (-1: none), and whether it is a list or an object; nothing inside is judged."""
    byte = peek(at)
    if byte == _QUOTE:
        return _past(at + 1), 0
    if byte != _OPEN and byte != _LIST:
        begin = at
        while peek(at) > 32 and peek(at) != _COMMA and peek(at) != _CLOSE and peek(at) != _UNLIST:
            at += 1
        return (at if at > begin else -1), 0
    depth = 0
    while True:
        byte = peek(at)
        at += 1
        if byte == _QUOTE:
            at = _past(at)
            if at < 0:
                return -1, 1
        elif byte == _OPEN or byte == _LIST:
            depth += 1
        elif byte == _CLOSE or byte == _UNLIST:
            depth -= 1
            if depth == 0:
                return at, 1
        elif byte == 0:
            return -1, 1


@inner
def _hex(at: int) -> int:
    """The number that four hex digits give, or -1."""
    number = 0
    for place in range(at, at + 4):
        byte = peek(place)
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= (byte | 32) <= 102:
            digit = (byte | 32) - 87
        else:
            return -1
        number = number * 16 + digit
    return number


@inner
def _encode(to: int, code: int) -> int:
    """Writes a code point in UTF-8; where it ends."""
    if code < 0x80:
        return poke(to, code)
    if code < 0x800:
        return poke(poke(to, 0xC0 | (code >> 6)), 0x80 | (code & 63))
    if code < 0x10000:
        to = poke(to, 0xE0 | (code >> 12))
    else:
        to = poke(poke(to, 0xF0 | (code >> 18)), 0x80 | ((code >> 12) & 63))
    return poke(poke(to, 0x80 | ((code >> 6) & 63)), 0x80 | (code & 63))


@inner
def _unescape_long(at: int, to: int) -> tuple[int, int]:
    r"""Writes what the \u escape at `at` stands for: the places after both, -1 for a bad one.

    A lone surrogate is bad here: the reference reader replaces and records it.
    """
    code = _hex(at + 2) if peek(at + 1) == 117 else -1
    at += 6
    if 0xD800 <= code < 0xE000:
        low = _hex(at + 2) if code < 0xDC00 and peek(at) == _SLASH and peek(at + 1) == 117 else -1
        if low < 0xDC00 or low > 0xDFFF:
            return -1, to
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        at += 6
    return (-1, to) if code < 0 else (at, _encode(to, code))


@inner
def _unescape_each(at: int, to: int) -> tuple[int, int]:
    """Writes the string that begins at `at` (behind its quote) to `to`: the places after both, -1 for a bad one."""
    while at >= 0:
        move(to, at)
        mask = quoting(at)
        if mask == 0:
            at += 32
            to += 32
            continue
        step = lowest(mask)
        at += step
        to += step
        if peek(at) == _QUOTE:
            return at + 1, to
        if peek(at) != _SLASH:
            return -1, to
        byte = _escaped(peek(at + 1))
        if byte < 0:
            at, to = _unescape_long(at, to)
        else:
            to = poke(to, byte)
            at += 2
    return -1, to


@inner
def _unescape_blocks(at: int, to: int) -> tuple[int, int]:
    """The same as `_unescape_each`."""
    carry = 0
    while True:
        stops, escaping = unescape_block(at, to, carry)
        if stops == 0:
            at += 64
            to += 64 - count_bits(escaping)
            carry = 1 if escaping < 0 else 0
            continue
        place = lowest(stops)
        at += place
        to += place - count_bits(escaping & ((1 << place) - 1))
        if peek(at) == _QUOTE:
            return at + 1, to
        if peek(at) < 32:
            return -1, to
        at, to = _unescape_long(at - 1, to)
        if at < 0:
            return -1, to
        carry = 0


unescape = _unescape_blocks if has_blocks() else _unescape_each


@inner
def _turn(at: int, terms: int, turn: int, to: int) -> tuple[int, int]:
    """Reads the turn that begins at `at` (behind its brace): the places after it and its text, -1 for a bad one."""
    kind, texts = ODD, 0
    for member in range(2):
        at = _gap(at)
        if member == 1:
            if peek(at) != _COMMA:
                return -1, to
            at = _gap(at + 1)
        if peek(at) != _QUOTE:
            return -1, to
        close = _plain(at + 1)
        if close < 0:
            return -1, to
        key = word_at(at + 1, close, get(terms, KEY_WORDS), 2)
        at = _gap(close + 1)
        if key < 0 or peek(at) != _COLON:
            return -1, to
        at = _gap(at + 1)
        if peek(at) != _QUOTE:
            return -1, to
        if key == 0:
            close = _plain(at + 1)
            role = word_at(at + 1, close, get(terms, ROLES), get(terms, ROLE_COUNT)) if close >= 0 else -1
            if role < 0:
                return -1, to
            kind = get(get(terms, KINDS), role)
            at = close + 1
        else:
            put(turn, START, to)
            at, to = unescape(at + 1, to)
            put(turn, END, to)
            if at < 0:
                return -1, to
            texts += 1
    at = _gap(at)
    if peek(at) != _CLOSE or kind == ODD or texts != 1:
        return -1, to
    put(turn, KIND, kind)
    return at + 1, to


@inner
def _list(at: int, terms: int, turn: int, to: int) -> tuple[int, int, int]:
    """Reads the list of turns that begins at `at` (behind its bracket): the places after it (-1: bad), its turns, its
    text.
    """
    while True:
        at = _gap(at)
        if peek(at) != _OPEN:
            return -1, turn, to
        at, to = _turn(at + 1, terms, turn, to)
        if at < 0:
            return -1, turn, to
        turn += 8 * TURN
        at = _gap(at)
        if peek(at) == _UNLIST:
            return at + 1, turn, to
        if peek(at) != _COMMA:
            return -1, turn, to
        at += 1


@inner
def _record(record: int, terms: int, turn: int, to: int) -> tuple[int, int]:
    """Reads one record: the places after its turns and its text, (-1, -1) when it is not taken."""
    at, end = _gap(get(record, BEGIN)), get(record, STOP)
    if peek(at) != _OPEN:
        return -1, -1
    at += 1
    keys, field = 0, -1
    put(turn, KIND, NOTHING)
    turn += 8 * TURN
    while True:
        at = _gap(at)
        if peek(at) != _QUOTE:
            return -1, -1
        close = _plain(at + 1)
        if close < 0:
            return -1, -1
        known = word_at(at + 1, close, get(terms, FIELDS), get(terms, FIELD_COUNT))
        at = _gap(close + 1)
        if peek(at) != _COLON:
            return -1, -1
        at = _gap(at + 1)
        keys += 1
        if known >= 0:
            # Two candidates: which one holds the turns is the reference's to say.
            if field >= 0 or peek(at) != _LIST:
                return -1, -1
            field = known
            put(record, CUT, at)
            at, turn, to = _list(at + 1, terms, turn, to)
            put(record, CUT_END, at)
        else:
            begin = at
            at, nested = _value(at)
            if nested:
                put(record, NESTED, 1)
            elif get(record, WIDE) == 0 and _is_wide(begin, at):
                put(record, WIDE, begin)
                put(record, WIDE_END, at)
                put(record, WIDE_KEY, keys - 1)
        if at < 0:
            return -1, -1
        at = _gap(at)
        if peek(at) == _CLOSE:
            break
        if peek(at) != _COMMA:
            return -1, -1
        at += 1
    put(record, KEYS, keys)
    put(record, FIELD, field)
    whole = at < end and _gap(at + 1) >= end
    return (turn, to) if field >= 0 and whole else (-1, -1)


@kernel
def scan(records: int, count: int, terms: int, turns: int, text: int) -> tuple[int, int]:
    """Reads `count` records whose BEGIN and STOP are set; gives the places after the last turn and the last text."""
    for number in range(count):
        record = records + 8 * RECORD * number
        put(record, FIRST, turns)
        put(record, NESTED, 0)
        put(record, WIDE, 0)
        after, used = _record(record, terms, turns, text)
        put(record, TAKEN, after >= 0)
        if after >= 0:
            turns, text = after, used
        put(record, LAST, turns)
    return turns, text


@kernel
def rests(records: int, count: int, to: int) -> int:
    """Writes a JSON list of what flat records that are taken say beside their turns; gives the place after it.

    0 stands for the turns, and for a long text.
    """
    to = poke(to, _LIST)
    comma = False
    for number in range(count):
        record = records + 8 * RECORD * number
        if get(record, TAKEN) == 0 or get(record, NESTED) != 0:
            continue
        if comma:
            to = poke(to, _COMMA)
        comma = True
        at, cut, wide = get(record, BEGIN), get(record, CUT), get(record, WIDE)
        if 0 < wide < cut:
            to = poke(copy(to, at, wide), _ZERO)
            at = get(record, WIDE_END)
        to = poke(copy(to, at, cut), _ZERO)
        at = get(record, CUT_END)
        if wide > cut:
            to = poke(copy(to, at, wide), _ZERO)
            at = get(record, WIDE_END)
        to = copy(to, at, get(record, STOP))
    return poke(to, _UNLIST)
