"""From the turns of any format, brought into the shape of chat messages, to a reading."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from schemas.errors import RecordError
from schemas.rows import TokenSpan
from schemas.trajectory import Outcome, Policy
from tasks.normalize.chat import Reader
from tasks.normalize.dialect import Dialect
from tasks.normalize.draft import Draft
from tasks.normalize.reading import Reading

_IDS = tuple[Annotated[int, msgspec.Meta(ge=0, lt=2**31)], ...]


@lru_cache(maxsize=1)
def plain_reader() -> Reader:
    """The reader of chat messages whose calls are structured."""
    return Reader(Dialect())


def transcript(
    messages: list[Any],
    draft: Draft,
    record: Mapping[str, Any],
    *,
    tools: Any = None,
    reader: Reader | None = None,
    known: Collection[str] = (),
    drop: Collection[str] = (),
    outcome: Outcome | None = None,
    policy: Policy | None = None,
    source_id: str | None = None,
    spans: Sequence[tuple[int, TokenSpan]] = (),
    parent: int | None = None,
    truncated: bool = False,
) -> Reading:
    """Reads `messages` (OpenAI chat shape) into `draft` and finishes it; see `Draft.finish` for the other arguments.

    spans: token spans with the index of the message that they belong to.
    """
    offered = draft.tools(tools)
    where: list[int] = []
    (reader or plain_reader()).read(messages, draft, offered, where)
    made = draft.finish(
        record, known=known, drop=drop, outcome=outcome, policy=policy, source_id=source_id, truncated=truncated
    )
    placed = tuple(msgspec.structs.replace(span, step=where[index]) for index, span in spans)
    return Reading(made, placed, parent)


def an_object(value: Any, what: str = "the record") -> dict[str, Any]:
    """`value` when it is a JSON object, else RecordError."""
    if not isinstance(value, dict):
        raise RecordError("not_an_object", f"{what} is {type(value).__name__}")
    return value


def a_dict(value: Any) -> dict[str, Any]:
    """`value` when it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def a_list(value: Any, what: str) -> list[Any]:
    """`value` when it is a list, [] when it is None, else RecordError."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise RecordError("wrong_type", f"{what} is {type(value).__name__}, not a list")
    return value


def token_span(prompt: Any, completion: Any, logprobs: Any = None, *, model: Any = None) -> TokenSpan | None:
    """A token span whose id, trajectory and step are still open; None without sampled tokens. Raises RecordError."""
    if not isinstance(completion, list) or not completion:
        return None
    try:
        return TokenSpan(
            id="",
            trajectory_id="",
            step=0,
            prompt_token_ids=msgspec.convert(prompt or [], _IDS),
            completion_token_ids=msgspec.convert(completion, _IDS),
            completion_logprobs=msgspec.convert(logprobs, tuple[float, ...]) if logprobs else None,
            model=model if isinstance(model, str) else None,
        )
    except msgspec.ValidationError as error:
        raise RecordError("wrong_type", f"token ids or log-probabilities: {error}") from None
