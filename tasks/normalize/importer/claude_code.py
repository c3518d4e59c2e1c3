"""Claude Code sessions: JSONL of `{"type": "user" | "assistant", "uuid", "parentUuid", "message": {…}}`.

An answer is logged block by block; the blocks of one message (`message.id`) are put together again. Where a user
took a prompt back and wrote another, the abandoned way is a branch of the session. Side chains (subagents) are
trajectories of their own, linked from the call that started them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import RecordError
from schemas.trajectory import Policy, Step, Subagent
from tasks.normalize.base import Importer
from tasks.normalize.decoder.anthropic_blocks import messages_of
from tasks.normalize.draft import Draft
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import a_dict, an_object, transcript

Line = dict[str, Any]
_SPEAKERS = frozenset({"user", "assistant", "system"})
_MESSAGE = frozenset({"role", "content", "model", "usage", "stop_reason", "id", "type"})
_FLAGS = ("isMeta", "isCompactSummary", "isApiErrorMessage")
_ABOUT = ("cwd", "gitBranch", "version", "entrypoint", "slug")
_PLAIN = frozenset(
    {"type", "uuid", "parentUuid", "logicalParentUuid", "message", "timestamp", "sessionId", "isSidechain", "agentId"}
)
_KNOWN = _PLAIN | {*_FLAGS, *_ABOUT, "userType", "requestId", "permissionMode"}


class ClaudeCode(Importer, frozen=True, kw_only=True):
    """Reads Claude Code's session logs."""

    def takes_whole(self, path: Path) -> bool:
        """A session is a file."""
        return True

    def read(self, record: Any) -> Sequence[Reading]:
        """The session, then its branches, then its side chains."""
        lines = [an_object(line, "a line") for line in (record if isinstance(record, list) else [record])]
        spoken = [line for line in lines if _speaks(line)]
        if not spoken:
            raise RecordError("no_messages", "no line of type user or assistant with a message")
        silent = {f"lines.{line.get('type')}" for line in lines if not _speaks(line)}
        parents = _parents(lines)
        main = [line for line in spoken if line.get("isSidechain") is not True]
        sides = _side_chains([line for line in spoken if line.get("isSidechain") is True], parents)
        readings: list[Reading] = []
        if main:
            ways = _ways(main, parents)
            readings = [_reading(way, number, silent, self.drop_fields) for number, way in enumerate(ways)]
            readings = [readings[0], *(_branch(one, readings[0]) for one in readings[1:])]
        first = len(readings)
        readings += [_reading(side, first + n, silent, self.drop_fields) for n, side in enumerate(sides)]
        if main and sides:
            readings[0] = _with_links(readings[0], readings[first:], main)
        return readings


def _speaks(line: Line) -> bool:
    return str(line.get("type")) in _SPEAKERS and isinstance(line.get("message"), dict)


def _parents(lines: list[Line]) -> dict[str, str | None]:
    """For every line the nearest line above it that speaks; lines without ids follow each other."""
    stands_for: dict[str, str | None] = {}
    found: dict[str, str | None] = {}
    for line in lines:
        key = line.get("uuid")
        above = line.get("parentUuid") or line.get("logicalParentUuid")
        parent = stands_for.get(above) if isinstance(above, str) else None
        if isinstance(key, str):
            stands_for[key] = key if _speaks(line) else parent
            if _speaks(line):
                found[key] = parent
    return found


def _asks(line: Line) -> bool:
    """Whether a line is a prompt of the user, not a tool's result."""
    content = line["message"].get("content")
    results = isinstance(content, list) and any(a_dict(block).get("type") == "tool_result" for block in content)
    return line.get("type") == "user" and not results and line.get("isMeta") is not True


def _ways(lines: list[Line], parents: dict[str, str | None]) -> list[list[Line]]:
    """The session as it ended, then every abandoned way with what came before it."""
    last_prompt: dict[str, str] = {}
    for line in lines:
        key, above = line.get("uuid"), parents.get(str(line.get("uuid")))
        if isinstance(key, str) and above is not None and _asks(line):
            last_prompt[above] = key
    # The abandoned prompt that a line descends from, None on the main way.
    under: dict[str, str | None] = {}
    ways: dict[str | None, list[Line]] = {None: []}
    for line in lines:
        key = str(line.get("uuid"))
        above = parents.get(key)
        way = under.get(above) if above is not None else None
        if above is not None and _asks(line) and last_prompt.get(above, key) != key:
            before = ways[way]
            cut = next((n for n, one in enumerate(before) if one.get("uuid") == above), len(before) - 1) + 1
            way = key
            ways[way] = before[:cut]
        under[key] = way
        ways[way].append(line)
    return list(ways.values())


def _side_chains(lines: list[Line], parents: dict[str, str | None]) -> list[list[Line]]:
    """Side chains by agent, or by the line that they start from."""
    roots: dict[str, str] = {}
    chains: dict[str, list[Line]] = {}
    for line in lines:
        key = str(line.get("uuid"))
        above = parents.get(key)
        root = str(line.get("agentId") or (roots.get(above, key) if above is not None else key))
        roots[key] = root
        chains.setdefault(root, []).append(line)
    return list(chains.values())


def _merged(lines: list[Line]) -> list[Line]:
    """The lines with the blocks of one answer in one line."""
    merged: list[Line] = []
    for line in lines:
        message = line["message"]
        last = merged[-1]["message"] if merged else {}
        same = line.get("type") == "assistant" and message.get("id") is not None and message["id"] == last.get("id")
        if same and isinstance(message.get("content"), list) and isinstance(last.get("content"), list):
            content = [*last["content"], *message["content"]]
            merged[-1] = {**line, **merged[-1], "message": {**last, **message, "content": content}}
        else:
            merged.append(line)
    return merged


def _messages(lines: list[Line], draft: Draft) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in _merged(lines):
        message = line["message"]
        made = {"role": message.get("role") or line["type"], "content": message.get("content")}
        made["timestamp"] = line.get("timestamp")
        for name, key in (("model", "model"), ("usage", "usage"), ("finish_reason", "stop_reason")):
            if message.get(key) is not None:
                made[name] = message[key]
        made.update({flag: True for flag in _FLAGS if line.get(flag) is True})
        draft.lose_rest(line, _KNOWN, "lines")
        draft.lose_rest(message, _MESSAGE, "lines.message")
        found.extend(_dated(messages_of(made, draft)))
    return found


def _dated(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A result has no place for the time; the turn that holds the rest of the message keeps it."""
    for message in messages:
        if message.get("role") == "tool":
            message.pop("timestamp", None)
    return messages


def _reading(lines: list[Line], number: int, silent: set[str], drop: Sequence[str]) -> Reading:
    draft = Draft()
    draft.lost.update(silent)
    first = lines[0]
    about = {name: first[name] for name in _ABOUT if first.get(name) is not None}
    session, agent = first.get("sessionId"), first.get("agentId")
    key = f"{session}/{agent}" if agent else f"{session}#{number}" if number else str(session)
    version = first.get("version")
    policy = Policy(
        harness="claude-code",
        harness_version=version if isinstance(version, str) else None,
        role="subagent" if first.get("isSidechain") is True else None,
    )
    messages = _messages(lines, draft)
    models = {message["model"] for message in messages if isinstance(message.get("model"), str)}
    if len(models) == 1:
        policy = msgspec.structs.replace(policy, model=models.pop())
    return transcript(messages, draft, about, drop=drop, policy=policy, source_id=key if session else None)


def _branch(reading: Reading, main: Reading) -> Reading:
    """An abandoned way, linked to the session where it leaves it."""
    point = _shared(reading.trajectory.steps, main.trajectory.steps)
    return Reading(msgspec.structs.replace(reading.trajectory, branch_point=point), reading.spans, 0)


def _shared(mine: tuple[Step, ...], others: tuple[Step, ...]) -> int:
    return next((n for n, (a, b) in enumerate(zip(mine, others, strict=False)) if a != b), min(len(mine), len(others)))


def _with_links(main: Reading, sides: list[Reading], lines: list[Line]) -> Reading:
    """The session with a link from each call to the side chain that it started."""
    agents: dict[str, str] = {}
    for line in lines:
        agent = a_dict(line.get("toolUseResult")).get("agentId")
        content = line["message"].get("content")
        for block in content if isinstance(content, list) else []:
            if agent and a_dict(block).get("type") == "tool_result":
                agents[str(block.get("tool_use_id"))] = str(agent)
    links: list[Subagent] = []
    for number, step in enumerate(main.trajectory.steps):
        for call in step.tool_calls:
            for side in sides:
                key = side.trajectory.source_id or ""
                named = agents.get(call.source_id or "")
                opening = side.trajectory.steps[0].content
                prompt = opening[0].text if opening else None
                if (named and key.endswith(f"/{named}")) or (prompt and prompt in call.arguments):
                    links.append(Subagent(step=number, trajectory_id=key, call_id=call.id))
    return Reading(msgspec.structs.replace(main.trajectory, subagents=tuple(links)), main.spans, main.parent)
