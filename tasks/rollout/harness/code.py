"""Write Python, see what it prints, go on: every program is a fenced block that the model itself wrote.

The final answer is what the task's verifier reads: for programming tasks the last code block, else the last
message. The sandbox's outputs are recorded like answers, so that a rerun after a crash asks the same questions.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from schemas.errors import Unavailable
from schemas.ids import content_id
from schemas.vocabulary import ActionSpace
from tasks.calls import FENCE
from tasks.rollout.base import Harness, in_thread
from tasks.rollout.episode import Episode

if TYPE_CHECKING:
    from tasks.context import Context

_ANSWERED = re.compile(r"<answer>|^\W*(?:the\s+)?(?:final\s+)?answer\s*(?:is|:)", re.IGNORECASE | re.MULTILINE)


class Code(Harness, frozen=True, kw_only=True):
    """The teacher writes programs that run in the sandbox, over several turns.

    It ends when a message holds no complete block, when it states its answer outside of one, or after max_turns
    turns. closing_tokens: generated tokens of a turn after a program that ran without an error (0: max_tokens).
    cpu_s, wall_s, memory_mb: limits of a run. output_chars: how much of the output the model sees.
    """

    strategy: ClassVar[str] = "code"
    action_space: ClassVar[ActionSpace] = ActionSpace.CODE
    template: ClassVar[str] = str(Path(__file__).with_suffix(".j2"))

    max_turns: int = 3
    closing_tokens: int = 0
    cpu_s: float = 3.0
    wall_s: float = 6.0
    memory_mb: int = 512
    output_chars: int = 800

    def __post_init__(self) -> None:
        if self.max_turns < 2:
            raise ValueError(f"max_turns must be at least 2 (a program, and a turn after it), not {self.max_turns}")

    async def rollout(self, episode: Episode, ctx: "Context") -> str:
        """See Harness."""
        task = episode.task
        *before, question = task.prompt
        for message in before:
            episode.say(message.role, message.content)
        episode.say(question.role, self.render("question", question=question.content, kind=task.kind))
        limit = self.limit_for(task)
        tokens = limit
        for turn in range(self.max_turns):
            reply = await episode.turn(tokens)
            if reply.refusal is not None:
                return "refusal"
            blocks = FENCE.findall(reply.text)
            if not blocks or _ANSWERED.search(FENCE.sub("", reply.text)):
                return "truncated" if reply.finish_reason == "length" and not blocks else "ok"
            if turn + 1 == self.max_turns:
                break
            output, failed = await self._ran(blocks[-1], episode, turn, ctx)
            episode.observe(self.render("observation", output=output, failed=failed, kind=task.kind))
            tokens = limit if failed else self.closing_tokens or limit
        return "max_turns"

    async def _ran(self, code: str, episode: Episode, turn: int, ctx: "Context") -> tuple[str, bool]:
        """What the program printed and whether it failed; recorded, since a program need not print the same twice."""
        from tasks.sandbox.results import Limits, RunKind

        limits = Limits(cpu_s=self.cpu_s, wall_s=self.wall_s, memory_mb=self.memory_mb)

        async def run() -> bytes:
            result = await in_thread(lambda: ctx.sandbox.run_python(code, limits=limits))
            if result.kind is RunKind.INFRASTRUCTURE:
                raise Unavailable("sandbox", result.detail)
            failed = result.kind is not RunKind.OK
            text = self._shown(result.stdout, result.stderr, "" if not failed else result.kind.value)
            return (b"1" if failed else b"0") + text.encode("utf-8", "replace")

        key = content_id("observation", episode.item.id, turn, code)
        data = await ctx.client.remember(key, run)
        return data[1:].decode(), data[:1] == b"1"

    def _shown(self, stdout: str, stderr: str, kind: str) -> str:
        """The part of the output that the model sees: the beginning of what was printed, the end of the trace."""
        room = self.output_chars
        printed = stdout.rstrip()
        if len(printed) > room:
            printed = printed[:room] + " …"
        if not kind:
            return printed or "(nothing)"
        trace = stderr.strip()[-room:] or f"it was stopped: {kind}"
        return f"{printed}\n{trace}".strip()
