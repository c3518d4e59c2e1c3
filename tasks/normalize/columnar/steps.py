"""Turns to steps: `tasks.normalize.chat.Reader` over flat columns, for turns of a role and a text alone."""

from tasks.normalize.columnar.calls import (
    CODE,
    DOUBT,
    EXECUTE,
    FENCED,
    FOUND,
    FUNCTION_XML,
    NONE,
    REACT,
    code,
    execute,
    fenced,
    function_xml,
    marked,
    opens,
    react,
)
from tasks.normalize.columnar.made import (
    ANSWERED,
    BY_NAME,
    BY_NONE,
    BY_ORDER,
    CALLS,
    LEAD,
    NAME_ENDS,
    NAMED,
    NAMES,
    PAIRED,
    RESULTS,
    SPARE,
    STEPS,
    TOOL_ENDS,
    TOOLS,
    add_answer,
    add_part,
    add_result,
    add_step,
    restore,
    save,
    set_tail,
    tail,
)
from tasks.normalize.columnar.memory import get, inner, kernel, put
from tasks.normalize.columnar.tables import (
    ACTS,
    AGENT,
    CODES,
    DECODER_COUNT,
    DECODERS,
    END,
    ENVIRONMENT,
    FIRST,
    FLAGS,
    FUNCTIONS,
    HAS_HERMES,
    HAS_THINK,
    KIND,
    LAST,
    NAME_END,
    NAME_START,
    NEXT_OBSERVES,
    NOTHING,
    OBSERVED,
    OBSERVED_COUNT,
    ONLY_OBSERVED,
    RECORD,
    RESPONSE,
    RESULT,
    SEEN,
    SEEN_END,
    SEEN_START,
    START,
    STEP_END,
    SYSTEM,
    TAKEN,
    THINK,
    TURN,
    USER,
    WORDS,
)
from tasks.normalize.columnar.words import length, lstrip, rstrip, same, starts

_NEXT = 8 * TURN


@kernel
def observe(turns: int, after: int, plan: int) -> None:
    """Says of every turn whether an observation pattern sees something in it: the first word that it starts with."""
    words, count = get(plan, OBSERVED), get(plan, OBSERVED_COUNT)
    for turn in range(turns, after, _NEXT):
        put(turn, SEEN, 0)
        put(turn, NAME_START, 0)
        if get(turn, KIND) == USER:
            start, end = get(turn, START), get(turn, END)
            for number in range(count):
                if starts(start, end, words, number):
                    put(turn, SEEN, 1)
                    put(turn, SEEN_START, start + length(words, number))
                    put(turn, SEEN_END, end)
                    break


@inner
def _is_answered(turn: int, stop: int, flags: int) -> bool:
    """Whether the environment speaks after a turn."""
    if turn + _NEXT >= stop:
        return False
    kind = get(turn + _NEXT, KIND)
    if kind == RESULT or kind == ENVIRONMENT:
        return True
    return kind == USER and (get(turn + _NEXT, SEEN) != 0 or flags & NEXT_OBSERVES != 0)


@inner
def _decoded(turn: int, stop: int, plan: int, made: int, step: int, record: int) -> int:
    """Writes the calls of an agent's turn: FOUND, NONE or DOUBT."""
    start, end, words, flags = get(turn, START), get(turn, END), get(plan, WORDS), get(plan, FLAGS)
    if flags & HAS_THINK and opens(start, end, words, get(plan, THINK)):
        return DOUBT
    if flags & ONLY_OBSERVED and not _is_answered(turn, stop, flags):
        return NONE
    if flags & HAS_HERMES and marked(start, end, words):
        return DOUBT
    set_tail(made, SPARE, get(made, 2 * SPARE))
    for number in range(get(plan, DECODER_COUNT)):
        family, own = get(get(plan, DECODERS), 2 * number), get(get(plan, DECODERS), 2 * number + 1)
        found = NONE
        acts = FUNCTIONS
        if family == FUNCTION_XML:
            found = function_xml(start, end, words, made, step)
        elif family == REACT:
            found = react(start, end, words, own, made, step)
        else:
            acts = CODES
            if family == FENCED:
                found = fenced(start, end, words, own, made, step)
            elif family == EXECUTE:
                found = execute(start, end, words, own, made, step)
            elif family == CODE:
                found = code(start, end, words, own, made, step)
        if found == FOUND:
            put(record, ACTS, get(record, ACTS) | acts)
        if found != NONE:
            return found
    return NONE


@inner
def _user_result(turn: int, flags: int, made: int) -> bool:
    """Writes the result that a user's turn holds; False when it holds none."""
    if get(turn, SEEN):
        if get(turn, SEEN_END) > get(turn, SEEN_START):
            add_answer(made, get(turn, SEEN_START), get(turn, SEEN_END))
        add_result(made, get(turn, NAME_START), get(turn, NAME_END))
        return True
    if flags & NEXT_OBSERVES:
        if get(turn, END) > get(turn, START):
            add_answer(made, get(turn, START), get(turn, END))
        add_result(made, 0, 0)
        return True
    return False


@inner
def _is_response(turn: int, plan: int) -> bool:
    """Whether a turn may be made of Hermes results, which only the reference takes apart."""
    if not get(plan, FLAGS) & HAS_HERMES:
        return False
    return opens(get(turn, START), get(turn, END), get(plan, WORDS), get(plan, RESPONSE))


@inner
def _environment_result(turn: int, made: int) -> None:
    add_answer(made, get(turn, START), get(turn, END))
    add_result(made, 0, 0)


@inner
def _answers(turn: int, stop: int, plan: int, made: int, alone: bool) -> int:
    """Writes the results of an agent's calls: the turn after them, or -1 for doubt.

    alone: one call, which the user's turn right after it answers and no other.
    """
    begin = turn
    while turn < stop:
        kind = get(turn, KIND)
        if kind == SYSTEM or kind == AGENT:
            break
        if _is_response(turn, plan):
            return -1
        if kind == RESULT or kind == ENVIRONMENT:
            _environment_result(turn, made)
        elif not _user_result(turn, get(plan, FLAGS), made):
            break
        turn += _NEXT
        if alone and kind == USER and turn == begin + _NEXT:
            break
    return turn


@inner
def _names(made: int, result: int, call: int) -> bool:
    """Whether a result names the tool of a call."""
    tools, names = get(made, 2 * TOOLS), get(made, 2 * NAMES)
    tool_ends, name_ends = get(made, TOOL_ENDS), get(made, NAME_ENDS)
    return same(
        tools + get(tool_ends, result),
        tools + get(tool_ends, result + 1),
        names + get(name_ends, call),
        names + get(name_ends, call + 1),
    )


@inner
def _is_taken(made: int, call: int, result: int) -> bool:
    """Whether a result from `result` on answers the call."""
    for other in range(result, get(made, RESULTS)):
        if get(get(made, ANSWERED), other) == call:
            return True
    return False


@inner
def _pair(made: int, call: int, result: int) -> None:
    """`draft.pair` for calls from `call` on and results from `result` on: by name, then by order."""
    calls, results = get(made, CALLS), get(made, RESULTS)
    answered, paired = get(made, ANSWERED), get(made, PAIRED)
    for one in range(result, results):
        if get(get(made, NAMED), one):
            for candidate in range(call, calls):
                if _names(made, one, candidate) and not _is_taken(made, candidate, result):
                    put(answered, one, candidate)
                    put(paired, one, BY_NAME)
                    break
    candidate = call
    for one in range(result, results):
        if get(paired, one) == BY_NONE:
            while candidate < calls and _is_taken(made, candidate, result):
                candidate += 1
            if candidate == calls:
                break
            put(answered, one, candidate)
            put(paired, one, BY_ORDER)


@inner
def _agent(turn: int, stop: int, plan: int, made: int, step: int, record: int) -> int:
    """Writes the step of an agent's turn; the turn after it, or -1 for doubt."""
    call, result = get(made, CALLS), get(made, RESULTS)
    found = _decoded(turn, stop, plan, made, step, record)
    if found == DOUBT:
        return -1
    if found == NONE:
        add_part(made, get(turn, START), get(turn, END))
        add_step(made, AGENT, 0)
        return turn + _NEXT
    alone = get(made, CALLS) - call == 1 and not get(plan, FLAGS) & (HAS_HERMES | HAS_THINK)
    after = _answers(turn + _NEXT, stop, plan, made, alone)
    if after < 0:
        return -1
    _pair(made, call, result)
    lead = rstrip(get(turn, START), get(made, LEAD))
    if lead > get(turn, START):
        add_part(made, get(turn, START), lead)
    start = lstrip(get(made, 2 * SPARE), tail(made, SPARE))
    end = rstrip(start, tail(made, SPARE))
    if end > start:
        add_part(made, start, end)
    add_step(made, AGENT, 0)
    return after


@inner
def _record(record: int, plan: int, made: int) -> bool:
    """Writes the steps of one record; False where only the reference can."""
    turn, stop, first = get(record, FIRST), get(record, LAST), get(made, STEPS)
    while turn < stop:
        kind = get(turn, KIND)
        if kind == AGENT:
            turn = _agent(turn, stop, plan, made, get(made, STEPS) - first, record)
            if turn < 0:
                return False
            continue
        if kind == RESULT:
            while turn < stop and (get(turn, KIND) == RESULT or get(turn, KIND) == ENVIRONMENT):
                if _is_response(turn, plan):
                    return False
                _environment_result(turn, made)
                turn += _NEXT
            add_step(made, RESULT, 0)
            continue
        if kind == USER and get(turn, SEEN) and get(made, STEPS) > first:
            add_part(made, get(turn, SEEN_START), get(turn, SEEN_END))
            add_step(made, ENVIRONMENT, 1)
        elif kind != NOTHING:
            add_part(made, get(turn, START), get(turn, END))
            add_step(made, kind, 0)
        turn += _NEXT
    return True


@kernel
def assemble(records: int, count: int, plan: int, made: int) -> None:
    """Writes the steps of every record that is TAKEN; unsets it where only the reference can."""
    for number in range(count):
        record = records + 8 * RECORD * number
        put(record, ACTS, 0)
        if get(record, TAKEN):
            save(made)
            if not _record(record, plan, made):
                restore(made)
                put(record, TAKEN, 0)
        put(record, STEP_END, get(made, STEPS))
