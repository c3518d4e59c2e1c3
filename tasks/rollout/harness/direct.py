"""Ask once, take what comes: the task's own messages, one answer."""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tasks.rollout.base import Harness
from tasks.rollout.episode import Episode

if TYPE_CHECKING:
    from tasks.context import Context


class Direct(Harness, frozen=True, kw_only=True):
    """The teacher answers the task directly, in one turn. Tools that the task offers are offered, not executed."""

    strategy: ClassVar[str] = "direct"
    template: ClassVar[str] = str(Path(__file__).with_suffix(".j2"))

    async def rollout(self, episode: Episode, ctx: "Context") -> str:
        """See Harness."""
        task = episode.task
        for message in task.prompt:
            episode.say(message.role, self.render("question", question=message.content, kind=task.kind))
        reply = await episode.turn(self.limit_for(task))
        if reply.refusal is not None:
            return "refusal"
        if not reply.text.strip() and not reply.tool_calls:
            return "empty"
        return "truncated" if reply.finish_reason == "length" else "ok"
