"""Chat messages in OpenAI's shape: `{"messages": [{"role", "content", "tool_calls"…}], "tools": […]}`.

Most public agent sets are this plus an encoding of calls in text; the options say which.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.errors import RecordError
from schemas.vocabulary import ActionSpace
from tasks.normalize.base import Importer
from tasks.normalize.chat import Reader
from tasks.normalize.dialect import Dialect
from tasks.normalize.draft import Draft
from tasks.normalize.plain import Plain
from tasks.normalize.reading import Reading
from tasks.normalize.strict import decode

if TYPE_CHECKING:
    from tasks.context import Context

_MESSAGES = ("messages", "conversations", "conversation", "trajectory", "input")
_TOOLS = ("tools", "functions", "available_tools")


class OpenaiChat(Importer, frozen=True, kw_only=True, dict=True):
    """Reads OpenAI chat messages, also where the list is JSON text.

    messages_field, tools_field: the fields with turns and tool schemas (default: the first known name present).
    calls, observation, only_observed, roles, role_key, content_key, more_content, weight_key, think: see
    `tasks.normalize.dialect.Dialect`. success_field, score_field: the fields that hold the outcome, where their names
    do not say so. action_space: how the agent acts, where the calls do not show it (browser, gui).
    """

    messages_field: str | None = None
    tools_field: str | None = None
    success_field: str | None = None
    score_field: str | None = None
    calls: tuple[str, ...] = ()
    observation: tuple[str, ...] = ()
    only_observed: bool = False
    action_space: ActionSpace | None = None
    roles: dict[str, str] = {}
    role_key: str = "role"
    content_key: str = "content"
    more_content: tuple[str, ...] = ()
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
            only_observed=self.only_observed,
            roles=self.roles,
            role_key=self.role_key,
            content_key=self.content_key,
            more_content=self.more_content,
            weight_key=self.weight_key,
            think=self.think,
        )
        return Reader(dialect)

    def plain(self, ctx: "Context") -> Plain:
        """The records that are a list of roles and texts."""
        fields = (self.messages_field,) if self.messages_field else _MESSAGES
        return Plain(
            fields,
            self.reader,
            self.action_space,
            self.role_key,
            self.content_key,
            simple=True,
            odd=frozenset({self.tools_field} if self.tools_field else _TOOLS),
            drop=frozenset(self.drop_fields),
            success=self.success_field,
            score=self.score_field,
        )

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory; a bare list of messages is a record too."""
        if isinstance(record, list):
            record = {"messages": record}
        if not isinstance(record, dict):
            raise RecordError("not_an_object", f"the record is {type(record).__name__}")
        field = self.messages_field or next((name for name in _MESSAGES if name in record), None)
        if field is None or field not in record:
            raise RecordError("no_messages", f"no field {self.messages_field or ' or '.join(_MESSAGES)}")
        offered = self.tools_field or next((name for name in _TOOLS if record.get(name)), None)
        messages = record[field]
        if isinstance(messages, str):
            messages = decode(messages.encode("utf-8", "surrogatepass")).value
        draft = Draft()
        tools = draft.tools(record.get(offered)) if offered else None
        self.reader.read(messages, draft, tools)
        known = {field, offered or field} | {n for n in (self.success_field, self.score_field) if n}
        outcome = draft.outcome(record, self.success_field, self.score_field)
        made = draft.finish(record, known=known, drop=self.drop_fields, outcome=outcome)
        if self.action_space is not None:
            made = msgspec.structs.replace(made, action_space=self.action_space)
        return (Reading(made),)
