"""Room that batches hand on to each other: new memory costs as much as writing to it.

A thread's own room would stay with every thread that ever ran a batch; of this there is as much as batches ran at once,
and MOST at most.
"""

from typing import Generic, TypeVar

Key = TypeVar("Key")
Piece = TypeVar("Piece")


# As many batches as an importer has at once (`Importer.at_once`), and one whose rows are still used.
MOST = 4


class Room(Generic[Key, Piece]):
    """Pieces of memory by name, for one batch at a time. Safe for threads."""

    def __init__(self) -> None:
        self._free: list[dict[Key, Piece]] = []

    def take(self) -> dict[Key, Piece]:
        """What an earlier batch gave back, or nothing."""
        try:
            return self._free.pop()
        except IndexError:
            return {}

    def give(self, pieces: dict[Key, Piece]) -> None:
        """Leaves pieces for a later batch; nobody may use them any more."""
        if len(self._free) < MOST:
            self._free.append(pieces)
