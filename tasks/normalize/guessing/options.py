"""What the importer of a chat must be told: the turns' fields, who their roles are, calls and results in their text."""

from typing import Any

from schemas.errors import RecordError
from tasks.normalize.draft import SOURCES
from tasks.normalize.guessing.hidden import Hidden, Turn, hidden
from tasks.normalize.guessing.rules import chat_field
from tasks.normalize.strict import decode
from tasks.normalize.transcript import a_dict

_MORE_AGENTS = frozenset({"ai", "bot"})


def _chats(fmt: str, records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The turns of records whose format leaves the encoding of calls to options."""
    chats: list[list[dict[str, Any]]] = []
    for record in records:
        field = chat_field(record) if fmt == "openai_chat" else "conversations"
        turns = record.get(field or "")
        if isinstance(turns, str):
            try:
                turns = decode(turns.encode("utf-8", "surrogatepass")).value
            except RecordError:
                continue
        if isinstance(turns, list):
            chats.append([a_dict(turn) for turn in turns])
    return chats


def options_of(fmt: str, records: list[dict[str, Any]]) -> Hidden:
    """What the importer must be told to find the turns' fields, the calls in their text, and the results."""
    if fmt not in ("openai_chat", "sharegpt"):
        return Hidden({})
    chats = _chats(fmt, records)
    turns = [turn for chat in chats for turn in chat]
    if any(
        turn.get("tool_calls") or turn.get("function_call") or turn.get("from") == "function_call" for turn in turns
    ):
        return Hidden({})
    role, content = ("from", "value") if fmt == "sharegpt" else ("role", "content")
    options: dict[str, Any] = {}
    elsewhere = any("text" in turn for turn in turns) and not any("content" in turn for turn in turns)
    if fmt == "openai_chat" and elsewhere:
        content = options["content_key"] = "text"
        bare = [turn for turn in turns if turn.get("text") is None]
        more = sorted({key for turn in bare for key in turn if key.endswith("_prompt") and turn[key]})
        options |= {"more_content": more} if more else {}
    named = {who for turn in turns if isinstance(who := turn.get(role), str)}
    roles = dict.fromkeys(sorted(named & _MORE_AGENTS), "agent")
    options |= {"roles": roles} if roles else {}
    sources = {**{name: source.value for name, source in SOURCES.items()}, **roles}
    found = hidden([[_turn(turn, role, content, sources) for turn in chat] for chat in chats])
    if fmt == "sharegpt":
        # Hermes is what this importer looks for by itself, and it knows no `only_observed`.
        if found.options.get("calls") == ["hermes"]:
            found = Hidden({key: value for key, value in found.options.items() if key != "calls"}, found.notes)
        elif "only_observed" in found.options:
            found = Hidden({}, ("its fenced blocks stay text; --option 'calls=[\"fenced\"]' reads them as calls",))
    return Hidden({**options, **found.options}, found.notes)


def _turn(turn: dict[str, Any], role: str, content: str, sources: dict[str, str]) -> Turn:
    text, who = turn.get(content), turn.get(role)
    return Turn(sources.get(who, "") if isinstance(who, str) else "", text if isinstance(text, str) else "")
