"""mini-swe-agent: `{"messages": [...], "info": {"exit_status", "submission", "model_stats"}, "trajectory_format"}`.

One fenced bash block a turn is the call, the next user turn what it gave; newer files have tool calls.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Policy
from tasks.normalize.base import Importer
from tasks.normalize.chat import Reader
from tasks.normalize.dialect import Dialect
from tasks.normalize.draft import Draft
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_dict, an_object, transcript
from tasks.normalize.usage import usage_fields, usage_of


@lru_cache(maxsize=1)
def _reader() -> Reader:
    return Reader(Dialect(calls=("fenced:bash",), observation=("",), roles={"exit": "environment"}))


class MiniSweAgent(Importer, frozen=True, kw_only=True):
    """Reads mini-swe-agent trajectories; the outcome stands in a report outside of the file."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        record = an_object(record)
        messages = record.get("messages")
        if not isinstance(messages, list):
            raise RecordError("no_messages", "no list 'messages'")
        info = a_dict(record.get("info"))
        draft = Draft()
        draft.extra.update(draft.rest({"info": info or None}, ()))
        usage = usage_of(info.get("model_stats"))
        if usage is not None:
            draft.extra["usage_total"] = usage_fields(usage)
        version = info.get("mini_version")
        policy = Policy(harness="mini-swe-agent", harness_version=version if isinstance(version, str) else None)
        return (
            transcript(
                messages,
                draft,
                record,
                reader=_reader(),
                known={"messages", "info"},
                drop=self.drop_fields,
                policy=policy,
                truncated=info.get("exit_status") in ("LimitsExceeded", "ContextWindowExceeded"),
            ),
        )
