"""One task that cannot be judged is its own trouble, and never that of its neighbours in a batch."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from schemas.errors import MissingExtra, RecordError, Unavailable, UserError
from schemas.task import Task

if TYPE_CHECKING:
    from tasks.context import Context

# What a value of a wrong shape ends in. Trouble of the machine (OSError, MemoryError) is not among it, nor a broken
# assertion of ours.
_SLIPS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
_log = logging.getLogger("gristmill.verify")


class Unfit(RecordError):
    """A task that could not be judged here: another installation, or a mended verifier, may do it."""


@contextmanager
def own_trouble(task: Task, ctx: "Context") -> Iterator[None]:
    """Makes what one task's specification causes that task's own trouble.

    Unfit `bad_spec` for what the specification asks for in vain (a package, a plug-in); Unfit `judging_failed` for an
    exception that nobody foresaw. An extra of Gristmill that is missing, and a sandbox that was set up wrongly, stay
    UserErrors: no task is to blame.
    """
    try:
        yield
    except MissingExtra:
        raise
    except UserError as error:
        with suppress(Unavailable):
            # Raises what is wrong with the sandbox itself.
            _ = ctx.sandbox
        raise Unfit("bad_spec", f"{task.verifier.use}: {error}") from error
    except _SLIPS as error:
        _log.warning("Task %s could not be judged by %s", task.id, task.verifier.use, exc_info=error)
        raise Unfit("judging_failed", f"{task.verifier.use}: {type(error).__name__}: {error}"[:500]) from error
