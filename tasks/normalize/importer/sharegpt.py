"""ShareGPT: `{"conversations": [{"from", "value"}], "system", "tools"}`, with and without tools.

Two ways of writing calls are in use, and both are read: turns of their own (`function_call` with JSON,
`observation`), and Hermes text (`<tool_call>` inside a `gpt` turn, `<tool_response>` in a `tool` turn).
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schemas.errors import RecordError
from schemas.trajectory import Part, Step
from schemas.vocabulary import Source
from tasks.normalize.base import Importer
from tasks.normalize.chat import Reader
from tasks.normalize.dialect import Dialect
from tasks.normalize.draft import Draft
from tasks.normalize.plain import Plain
from tasks.normalize.reading import Reading
from tasks.normalize.strict import decode

if TYPE_CHECKING:
    from tasks.context import Context

_FIELDS = ("conversations", "conversation", "messages", "items")


class Sharegpt(Importer, frozen=True, kw_only=True, dict=True):
    """Reads ShareGPT conversations.

    messages_field: the field with the turns (default: the first known name present). calls, observation, roles,
    weight_key, think: see `tasks.normalize.dialect.Dialect`.
    """

    messages_field: str | None = None
    calls: tuple[str, ...] = ("hermes",)
    observation: tuple[str, ...] = ()
    roles: dict[str, str] = {}
    weight_key: str = "weight"
    think: bool = False

    def __post_init__(self) -> None:
        self.reader  # noqa: B018 - wrong options are refused where they are given

    @cached_property
    def reader(self) -> Reader:
        """Reads the turns in the dialect that the options describe."""
        dialect = Dialect(
            calls=self.calls,
            observation=self.observation,
            roles=self.roles,
            role_key="from",
            content_key="value",
            weight_key=self.weight_key,
            think=self.think,
        )
        return Reader(dialect)

    def plain(self, ctx: "Context") -> Plain:
        """The records that are a list of speakers and texts."""
        fields = (self.messages_field,) if self.messages_field else _FIELDS
        odd, drop = frozenset({"tools", "system"}), frozenset(self.drop_fields)
        return Plain(fields, self.reader, None, "from", "value", simple=True, odd=odd, drop=drop)

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory; a `system` text of the record becomes the first step."""
        if isinstance(record, list):
            record = {"conversations": record}
        if not isinstance(record, dict):
            raise RecordError("not_an_object", f"the record is {type(record).__name__}")
        field = self.messages_field or next((name for name in _FIELDS if name in record), None)
        if field is None or field not in record:
            raise RecordError("no_messages", f"no field {self.messages_field or ' or '.join(_FIELDS)}")
        turns = record[field]
        if isinstance(turns, str):
            turns = decode(turns.encode("utf-8", "surrogatepass")).value
        draft = Draft()
        tools = draft.tools(record.get("tools"))
        system = record.get("system")
        if isinstance(system, str) and system:
            draft.extra["system"] = "field"
            draft.steps.append(Step(source=Source.SYSTEM, content=(Part(text=system),)))
        if isinstance(turns, list):
            turns = [_openai_calls(turn, draft) for turn in turns]
        self.reader.read(turns, draft, tools)
        return (Reading(draft.finish(record, known={field, "tools", "system"}, drop=self.drop_fields)),)


def _openai_calls(turn: Any, draft: Draft) -> Any:
    """A `function_call` turn with its JSON text as calls; any other turn as it is."""
    if not isinstance(turn, dict) or turn.get("from") != "function_call" or not isinstance(turn.get("value"), str):
        return turn
    draft.extra["style"] = "function_call"
    try:
        given = decode(turn["value"].encode("utf-8", "surrogatepass")).value
    except RecordError:
        return turn
    calls = given if isinstance(given, list) else [given]
    if not calls or not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        return turn
    return {**turn, "value": None, "tool_calls": [{"function": call, "id": call.get("id")} for call in calls]}
