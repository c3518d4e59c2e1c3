"""The one error tree of Gristmill.

A `UserError` is a mistake that its reader can mend: the command line prints its three parts (what was
given, what is known, what to do) and exits with 2, without a traceback. Everything else is a fault of
ours (exit 1). `Unavailable` marks trouble of the surroundings (endpoint down, disk full, sandbox
missing): the item stays pending and the next run takes it up again.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class GristmillError(Exception):
    """Base of every error that Gristmill raises on purpose."""


class UserError(GristmillError):
    """A mistake in what the user gave.

    given: the offending value and where it stands; known: what would have been accepted; todo: the next step.
    """

    def __init__(self, given: str, known: str = "", todo: str = "") -> None:
        self.given, self.known, self.todo = given, known, todo
        super().__init__("\n".join(part for part in (given, known, todo) if part))


def meant(given: str, known: Iterable[str]) -> str:
    """The question whether the reader meant a known word that is close to what was given; "" when none is."""
    close = get_close_matches(given.lower(), list(known), n=1, cutoff=0.7)
    return f"Did you mean '{close[0]}'?" if close else ""


class MissingExtra(UserError):
    """An optional dependency is not installed; the message carries the install command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"The package '{package}' is not installed.",
            f"It belongs to the optional extra '{extra}'.",
            f"Install it with: pip install 'gristmill[{extra}]'",
        )


class RecordError(GristmillError):
    """One record cannot be read or used; it becomes a dead letter with this reason code."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}" if detail else reason)


class Unavailable(GristmillError):
    """The surroundings failed, not the item: it stays pending for the next run."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}" if detail else reason)


class LakeError(GristmillError):
    """The lake is damaged, too new, locked by another process, or lost a commit after all retries."""


class LeaseLost(GristmillError):
    """A lease expired or was taken over before its work was committed; nothing was written."""


class FaultError(GristmillError):
    """A broken invariant of ours, such as a count that does not reconcile."""
