"""The decoders of `tasks.normalize.decoder` over bytes. FOUND: calls were added; NONE: there are none; DOUBT: the
text is one that only the reference should judge.

Where the text before the calls ends is left in the table at LEAD, the text after them in SPARE.
"""

from tasks.normalize.columnar.made import (
    JSON,
    LEAD,
    MANY_SPANS,
    NAMES,
    RAW,
    SPANS,
    SPARE,
    add_call,
    add_single,
    append,
    append_word,
    escape,
    set_tail,
    tail,
)
from tasks.normalize.columnar.memory import get, inner, peek, poke, put
from tasks.normalize.columnar.words import before, find, length, lstrip, rfind, rstrip, same, starts

DOUBT, NONE, FOUND = -1, 0, 1
FUNCTION_XML, FENCED, EXECUTE, REACT, CODE, HERMES = range(6)
# The words that every decoder knows, in front of its own.
COMMON = (
    "<function=", "</function>", "<parameter=", "</parameter>", ">", "```", "\n", '{"code":"', '{"input":"', "act",
    "python", "<tool_call>",
)  # fmt: skip
_OPEN, _CLOSE, _P_OPEN, _P_CLOSE, _ANGLE, _FENCE, _LINE, _KEY_CODE, _KEY_INPUT, _ACT, _PYTHON, _TOOL_CALL = range(12)


@inner
def function_xml(start: int, end: int, words: int, made: int, step: int) -> int:
    """`decoder.function_xml.decode`; calls that need its careful way are in doubt."""
    at = find(start, end, words, _OPEN)
    if at < 0:
        return NONE
    put(made, LEAD, at)
    index = 0
    while at >= 0:
        body = find(at, end, words, _ANGLE) + 1
        if body <= 0:
            break
        close = find(body, end, words, _CLOSE)
        stop = end if close < 0 else close
        given = _parameters(body, stop, words, made)
        # Without its closing tag a call is whole when it has parameters.
        if given < 0 or (close < 0 and given == 0):
            return DOUBT
        append(made, NAMES, at + length(words, _OPEN), body - 1)
        append(made, RAW, body, stop)
        add_call(made, step, index)
        index += 1
        if close < 0:
            break
        done = close + length(words, _CLOSE)
        at = find(done, end, words, _OPEN)
        append(made, SPARE, done, end if at < 0 else at)
    return FOUND if index else NONE


@inner
def _span(made: int, number: int) -> int:
    """The place of a parameter: where its key begins and ends, then its value."""
    return made + 8 * (SPANS + 4 * number)


@inner
def _parameters(start: int, end: int, words: int, made: int) -> int:
    """Writes the JSON of a plain body of parameters, with sorted keys: how many, -1 where anything is odd."""
    count = 0
    at = find(start, end, words, _P_OPEN)
    lead = end if at < 0 else at
    if lstrip(start, lead) < lead:
        return -1
    while at >= 0:
        key = at + length(words, _P_OPEN)
        at = find(key, end, words, _P_OPEN)
        stop = end if at < 0 else at
        value = find(key, stop, words, _ANGLE) + 1
        close = find(value, stop, words, _P_CLOSE) if value > 0 else -1
        if close < 0 or count == MANY_SPANS:
            return -1
        rest = close + length(words, _P_CLOSE)
        if lstrip(rest, stop) < stop:
            return -1
        for here in range(key, value - 1):
            if peek(here) == 60:
                return -1
        if not _insert(made, count, key, value - 1):
            return -1
        place = _span(made, get(made, LEAD + 1))
        # One line break after the opening tag and one before the closing tag are markup.
        begin = value + 1 if value < close and peek(value) == 10 else value
        finish = close - 1 if begin < close and peek(close - 1) == 10 else close
        put(place, 2, begin)
        put(place, 3, finish)
        count += 1
    to = poke(tail(made, JSON), 123)
    for number in range(count):
        place = _span(made, number)
        to = to if number == 0 else poke(to, 44)
        to = escape(poke(to, 34), get(place, 0), get(place, 1))
        to = poke(poke(poke(to, 34), 58), 34)
        to = poke(escape(to, get(place, 2), get(place, 3)), 34)
    set_tail(made, JSON, poke(to, 125))
    return count


@inner
def _insert(made: int, count: int, key: int, key_end: int) -> bool:
    """Puts a key in its place among `count` sorted ones, and notes which (LEAD + 1); False when it is there already."""
    number = count
    while number > 0:
        place = _span(made, number - 1)
        if before(get(place, 0), get(place, 1), key, key_end):
            break
        if same(get(place, 0), get(place, 1), key, key_end):
            return False
        for part in range(4):
            put(_span(made, number), part, get(place, part))
        number -= 1
    put(_span(made, number), 0, key)
    put(_span(made, number), 1, key_end)
    put(made, LEAD + 1, number)
    return True


@inner
def _line_fence(start: int, end: int, at: int, words: int) -> int:
    """The next fence from `at` on that begins a line of the text, or -1."""
    at = find(at, end, words, _FENCE)
    while at > start and peek(at - 1) != 10:
        begin = rfind(start, at, words, _LINE) + 1
        begin = max(begin, start)
        if lstrip(begin, at) == at:
            break
        broken = find(at, end, words, _LINE)
        at = -1 if broken < 0 else find(broken, end, words, _FENCE)
    return at


@inner
def fenced(start: int, end: int, words: int, own: int, made: int, step: int) -> int:
    """`decoder.code_text.decode_fenced`: the last block; the word `own` is its language where it names none."""
    if find(start, end, words, _FENCE) < 0:
        return NONE
    first, last, info, info_end, code_start, code_end = -1, 0, 0, 0, 0, 0
    at = _line_fence(start, end, start, words)
    while at >= 0:
        broken = find(at, end, words, _LINE)
        if broken < 0:
            break
        begin = lstrip(at + 3, broken)
        stop = rstrip(begin, broken)
        word_only = True
        for here in range(begin, stop):
            if peek(here) == 32 or peek(here) == 96:
                word_only = False
            elif peek(here) > 127:
                return DOUBT
        close = _line_fence(start, end, broken, words)
        if not word_only:
            at = close
            continue
        if close < 0:
            break
        first, last, info, info_end = at, close + 3, begin, stop
        code_end = rfind(broken, close, words, _LINE)
        code_start = broken + 1 if code_end > broken else broken
        code_end = max(code_end, code_start)
        if code_end > code_start and peek(code_end - 1) == 13:
            code_end -= 1
        broken = find(close, end, words, _LINE)
        at = -1 if broken < 0 else _line_fence(start, end, broken, words)
    if first < 0:
        at = find(start, end, words, _FENCE)
        while at >= 0:
            close = find(at + 3, end, words, _FENCE)
            if close < 0:
                break
            if close > at + 3 and find(at + 3, close, words, _LINE) < 0:
                first, last, code_start, code_end = at, close + 3, at + 3, close
                at = find(close + 3, end, words, _FENCE)
            else:
                at = close
    if first < 0:
        return NONE
    put(made, LEAD, first)
    append(made, SPARE, last, end)
    if info_end > info:
        to = tail(made, NAMES)
        for here in range(info, info_end):
            byte = peek(here)
            to = poke(to, byte + 32 if 65 <= byte <= 90 else byte)
        set_tail(made, NAMES, to)
    else:
        append_word(made, NAMES, words, own)
    add_single(made, step, 0, words, _KEY_CODE, code_start, code_end, code_start, code_end)
    return FOUND


@inner
def execute(start: int, end: int, words: int, own: int, made: int, step: int) -> int:
    """`decoder.code_text.decode_tag` with the tags at `own`."""
    at = find(start, end, words, own)
    index, done = 0, 0
    while at >= 0:
        begin = at + length(words, own)
        close = find(begin, end, words, own + 1)
        if close < 0:
            break
        if index == 0:
            put(made, LEAD, at)
        else:
            append(made, SPARE, done, at)
        begin = begin + 1 if begin < close and peek(begin) == 10 else begin
        finish = close - 1 if begin < close and peek(close - 1) == 10 else close
        append_word(made, NAMES, words, _PYTHON)
        add_single(made, step, index, words, _KEY_CODE, begin, finish, begin, finish)
        index += 1
        done = close + length(words, own + 1)
        at = find(close, end, words, own)
    if index == 0:
        return NONE
    append(made, SPARE, done, end)
    return FOUND


@inner
def code(start: int, end: int, words: int, own: int, made: int, step: int) -> int:
    """`decoder.code_text.decode_whole` in the language at `own`."""
    if lstrip(start, end) == end:
        return NONE
    put(made, LEAD, start)
    append_word(made, NAMES, words, own)
    add_single(made, step, 0, words, _KEY_CODE, start, end, start, end)
    return FOUND


@inner
def _letter(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122 or byte == 95


@inner
def _name(start: int, end: int) -> int:
    """Where the tool's name at the start of the text ends: `start` for none, -1 where only `re` can tell."""
    at = start
    if at < end and _letter(peek(at)):
        at += 1
        while at < end and (_letter(peek(at)) or 48 <= peek(at) <= 57 or peek(at) == 45 or peek(at) == 46):
            at += 1
    return -1 if at < end and at > start and peek(at) > 127 else at


@inner
def react(start: int, end: int, words: int, own: int, made: int, step: int) -> int:
    """`decoder.react.decode` with "KEYWORD:" and its input line at `own`; inputs that may be JSON are in doubt."""
    at = rfind(start, end, words, own)
    while at > start:
        begin = max(rfind(start, at, words, _LINE) + 1, start)
        first = find(begin, end, words, own)
        here = begin
        while here < first and (peek(here) == 32 or peek(here) == 9 or peek(here) == 42 or peek(here) == 35):
            here += 1
        if here == first:
            at = first
            break
        at = rfind(start, begin, words, own)
    if at < 0:
        return NONE
    put(made, LEAD, at)
    return _action(at + length(words, own), end, words, own, made, step)


@inner
def _action(body: int, end: int, words: int, own: int, made: int, step: int) -> int:
    given = find(body, end, words, own + 1)
    if given >= 0:
        begin = lstrip(body, given)
        stop = rstrip(begin, given)
        named = _name(begin, stop)
        if named < 0:
            return DOUBT
        if named < stop or named == begin:
            return NONE
        raw = given + length(words, own + 1)
        value = lstrip(raw, end)
        value_end = rstrip(value, end)
        if value < value_end and peek(value) == 123:
            return DOUBT
        append(made, NAMES, begin, stop)
        add_single(made, step, 0, words, _KEY_INPUT, raw, end, value, value_end)
        return FOUND
    begin = lstrip(body, end)
    stop = rstrip(begin, end)
    if begin == stop:
        return NONE
    named = _name(begin, stop)
    if named < 0:
        return DOUBT
    last = peek(stop - 1)
    if last == 93 or last == 41:
        opener = lstrip(named, stop) if named > begin else stop
        if opener < stop - 1 and peek(opener) == (91 if last == 93 else 40):
            append(made, NAMES, begin, named)
            add_single(made, step, 0, words, _KEY_INPUT, opener + 1, stop - 1, opener + 1, stop - 1)
            return FOUND
    elif named == stop:
        append(made, NAMES, begin, named)
        set_tail(made, JSON, poke(poke(tail(made, JSON), 123), 125))
        add_call(made, step, 0)
        return FOUND
    append_word(made, NAMES, words, _ACT)
    add_single(made, step, 0, words, _KEY_INPUT, body, end, begin, stop)
    return FOUND


@inner
def marked(start: int, end: int, words: int) -> bool:
    """Whether the text holds a Hermes call."""
    return find(start, end, words, _TOOL_CALL) >= 0


@inner
def opens(start: int, end: int, words: int, number: int) -> bool:
    """Whether the text starts with a word, white space apart."""
    return starts(lstrip(start, end), end, words, number)
