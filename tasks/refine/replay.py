"""Runs the Python calls of a trajectory again, in the sandbox, and compares with what is recorded.

`script`: each call is a program of its own. `notebook`: the calls share one interpreter's state, and a call that
ends in an expression shows its value, as in an interactive session; each call is then run after a silent replay
of the earlier ones, in a jail of its own.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from schemas.errors import Unavailable
from tasks.calls import CallOutcome
from tasks.sandbox.results import RunKind

if TYPE_CHECKING:
    from tasks.context import Context

Session = Literal["script", "notebook"]

# What interactive sessions and harnesses put around a call's own output.
_PROMPT = re.compile(r"^(?:Out|In) ?\[\d+\]: ?", re.MULTILINE)
# So many characters of a cut record say where the program's own output begins.
_SURE = 40
_SPACE = re.compile(r"\s+")


class Replay(NamedTuple):
    """How a replay ended: `ok`, or why not and at which step."""

    ok: bool
    why: str = ""
    step: int = -1
    recorded: str = ""
    replayed: str = ""


def replay(calls: Sequence[CallOutcome], session: Session, ctx: "Context") -> Replay:
    """Runs every call that holds Python again and compares it with its record.

    `replay_failed`: a call recorded as a success fails now; `replay_passed`: the other way round; `replay_differs`:
    both succeed with other output. Raises Unavailable when the sandbox cannot run.
    """
    earlier: list[str] = []
    for call in calls:
        if call.code is None or call.failed is None:
            continue
        program = call.code if session == "script" else notebook(earlier, call.code)
        result = ctx.sandbox.run_python(program)
        if result.kind is RunKind.INFRASTRUCTURE:
            raise Unavailable("sandbox", result.detail)
        failed = result.kind is not RunKind.OK
        if failed != call.failed:
            why = "replay_failed" if failed else "replay_passed"
            return Replay(False, why, call.step, call.output[-500:], (result.stderr or result.stdout)[-500:])
        if not failed and not same_output(call.output, result.stdout):
            return Replay(False, "replay_differs", call.step, call.output[-500:], result.stdout[-500:])
        earlier.append(call.code)
    return Replay(True)


def same_output(recorded: str, printed: str) -> bool:
    """Whether the record is what was printed, apart from white space, prompts and notes of the harness around it.

    A program that prints nothing matches a record without output or with a note only ("no output"). A record that
    was cut ("…") is compared up to the cut.
    """
    plain = _SPACE.sub(" ", _PROMPT.sub("", recorded)).strip()
    wanted = _SPACE.sub(" ", printed).strip()
    head, cut, _ = plain.partition("…")
    if cut and len(wanted) > len(head):
        start = head.find(wanted[:_SURE])
        return start >= 0 and wanted.startswith(head[start:].rstrip())
    # Whole words only: a printed 1 is not the recorded 12.
    return f" {wanted} " in f" {plain} " if wanted else not _PROMPT.search(recorded)


def notebook(earlier: Sequence[str], code: str) -> str:
    """A session's call as a program: it replays `earlier` silently, runs `code` and shows its last expression."""
    return (
        "import ast, contextlib, io\n"
        "space = {'__name__': '__main__'}\n"
        f"for cell in {json.dumps(list(earlier))}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):\n"
        "        exec(compile(cell, 'cell', 'exec'), space)\n"
        f"tree = ast.parse({json.dumps(code)})\n"
        "last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None\n"
        "exec(compile(tree, 'cell', 'exec'), space)\n"
        "value = eval(compile(ast.Expression(last.value), 'cell', 'eval'), space) if last else None\n"
        "if value is not None:\n"
        "    print(repr(value))\n"
    )
