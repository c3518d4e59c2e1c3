"""What an importer says about the plain chats among its records, which `tasks.normalize.columnar` reads in bulk."""

from typing import NamedTuple

from schemas.vocabulary import ActionSpace
from tasks.normalize.chat import Reader


class Plain(NamedTuple):
    """fields: names of the field that holds the turns. reader: of the dialect. action_space: where an option names it.
    role, content: the keys of a turn. simple: whether fields are judged by their names alone, except where a record
    has one of the `odd`. drop: fields to leave out; success, score: fields of the outcome.
    """

    fields: tuple[str, ...]
    reader: Reader
    action_space: ActionSpace | None
    role: str
    content: str
    simple: bool = False
    odd: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()
    success: str | None = None
    score: str | None = None
