"""The command line. Each command imports what it needs when it runs, so that --help answers in half a second.

Exit codes: 0 done, 1 a fault of ours, 2 the user's input, 3 done with failures over the recipe's limit.
"""

import errno
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import typer

from gristmill.commands import data, explore, ingest, look, report, run, schedule, story, tools, verify

app = typer.Typer(
    name="gristmill",
    help="Grain in, flour out: synthesize, verify and curate data that trains LLM agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
for group in (run, look, story, report, ingest, data, explore, schedule, tools, verify):
    group.add_to(app)

_interrupts: list[bool] = []

# What the system says of a path that is gone, full or not to be read or written: of no use as a traceback.
_REFUSALS = frozenset(
    {
        *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
        *(errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP),
    }
)


def main() -> None:
    """Runs the command line; a user's mistake prints a message and never a traceback."""
    from schemas.errors import LakeError, Unavailable, UserError

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        app()
    except UserError as error:
        _say("error", error.given, error.known, error.todo)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        _stopped()
    except Unavailable as error:
        _say("error", str(error), todo="Mend it and run the same command again: nothing is lost.")
        raise SystemExit(1) from None
    except LakeError as error:
        _say("error", str(error), todo="`gristmill doctor` looks at the lake and says what to do.")
        raise SystemExit(1) from None
    except Exception as error:
        if os.environ.get("GRISTMILL_DEBUG"):
            raise
        if _interrupts:
            # Libraries make errors of their own of an interrupt: DuckDB a RuntimeError, "Query interrupted".
            _stopped()
        if isinstance(error, OSError) and error.errno in _REFUSALS and error.filename is not None:
            why = "What was recorded stays recorded. Mend it and run the same command again."
            _say("error", f"{error.filename}: {error.strerror}", todo=why)
            raise SystemExit(1) from None
        _say(
            "fault",
            f"{type(error).__name__}: {error}",
            "This is a fault of ours; what was recorded stays recorded.",
            "Set GRISTMILL_DEBUG=1 to see where it happened.",
        )
        raise SystemExit(1) from None


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _interrupts.append(True)
    raise KeyboardInterrupt


def _stopped() -> NoReturn:
    _say("stopped", "What was recorded stays recorded; the same command goes on from there.")
    raise SystemExit(130)


def _say(word: str, given: str, known: str = "", todo: str = "") -> None:
    sys.stderr.write("".join(f"{line}\n" for line in (f"{word}: {given}", known, todo) if line))


if __name__ == "__main__":
    main()
