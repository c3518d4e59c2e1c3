"""Plays an answer's commands in a TextWorld game and asks the game whether they won.

A task's specification (JSON): {"seed": 3, "rooms": 3, "objects": 4, "quest_length": 3}; the same options give the same
game. The commands are what the agent's tool calls gave as `command` (or `action`), in order, or else the lines of its
last message, in a fence or not. The game runs in a helper process and says itself whether it is won (trust: outside).
"""

import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from schemas.errors import MissingExtra
from schemas.task import Task
from schemas.trajectory import Base, Trajectory
from schemas.vocabulary import Source, VerdictKind
from tasks.verify.base import Judgement, Verifier, failed, last_message, passed, spec_of, unparsable
from tasks.verify.workers.worker import WorkerDied, WorkerFailed, WorkerTimeout, pool

if TYPE_CHECKING:
    from tasks.context import Context

_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^\s*(?:>|[-*]|\d+[.)])\s*")
_MOST = 500


class Spec(Base, frozen=True):
    """How the game is made."""

    seed: int
    rooms: int = 1
    objects: int = 1
    quest_length: int = 1


class TextGame(Verifier, frozen=True, kw_only=True):
    """The game must be won.

    partial: a game that is not won gives its share of points as reward. timeout_s: for one game, making it included.
    """

    partial: bool = False
    timeout_s: float = 120.0

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Plays the commands until the game is over or one is no command of the game."""
        if find_spec("textworld") is None:
            raise MissingExtra("textworld", "games")
        spec = spec_of(task, Spec)
        commands = commands_of(completion)
        if not commands:
            return unparsable("no_commands")
        if len(commands) > _MOST:
            return failed("too_many_commands", {"commands": len(commands)})
        request = {"options": msgspec.to_builtins(spec), "commands": commands}
        try:
            end = pool("tasks.verify.workers.text_game:play").call(request, self.timeout_s)
        except WorkerTimeout:
            return Judgement(VerdictKind.TIMEOUT, 0.0, "game_timeout")
        except WorkerFailed as error:
            return failed("game_error", {"detail": str(error)})
        except WorkerDied:
            return Judgement(VerdictKind.MEMORY, 0.0, "game_died")
        if end["won"]:
            return passed(end)
        reward = max(0.0, min(1.0, end["score"] / end["max_score"])) if self.partial and end["max_score"] else 0.0
        reason = "lost" if end["lost"] else "not_a_command" if end["refused"] is not None else "not_won"
        return failed(reason, end, min(reward, 0.99))

    def answer(self, task: Task, trajectory: Trajectory) -> str:
        """The commands of the agent's tool calls, a line each; without any, what it said last."""
        commands = []
        for step in trajectory.steps:
            if step.source is Source.AGENT and not step.copied_context:
                for call in step.tool_calls:
                    given = json.loads(call.arguments_json) if call.arguments_json else {}
                    command = given.get("command", given.get("action"))
                    if isinstance(command, str):
                        commands.append(" ".join(command.split()))
        return "\n".join(commands) or last_message(trajectory)

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, looking about, and words of the interpreter."""
        return {"empty": "", "look": "look", "wait": "wait\nwait", "restart": "restart", "win": "win"}


def commands_of(text: str) -> list[str]:
    """The commands, one a line: those of the last fenced block, or of the whole text; list marks are dropped."""
    blocks = _FENCE.findall(text)
    lines = (blocks[-1] if blocks else text).splitlines()
    return [command for line in lines if (command := _MARK.sub("", line).strip())]
