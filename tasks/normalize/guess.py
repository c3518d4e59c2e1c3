"""Which importer reads a file, and what in it says so.

A few records are looked at; the first rule that fits decides. Rules go from the most peculiar mark (a schema
version, an event's kind) to the most common one (a list of messages).
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import RecordError, UserError
from tasks.normalize.draft import SOURCES
from tasks.normalize.hidden import Hidden, Turn, hidden
from tasks.normalize.source.files import BOM, Shape, expand, shape_of
from tasks.normalize.source.spans import read_spans, spans_of
from tasks.normalize.source.tables import read_rows
from tasks.normalize.strict import decode
from tasks.normalize.transcript import a_dict

# How many records of a file are looked at, of how many bytes together; and of how many files of one format.
_LOOK, _BYTES, FILES = 40, 4 << 20, 20
_SMALL = 64 << 10
_MORE_AGENTS = frozenset({"ai", "bot"})


class Guess(NamedTuple):
    """The importer's id, why, the options that the records ask for, and remarks about them."""

    format: str
    why: str
    options: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


class _Rule(NamedTuple):
    format: str
    fits: Callable[[dict[str, Any]], bool]
    why: str


def _has(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda record: all(name in record for name in names)


def _list_of(field: str, key: str) -> Callable[[dict[str, Any]], bool]:
    """Whether `field` is a list whose first object has `key`."""
    return lambda record: bool(_first(record.get(field)).keys() & {key})


def _first(value: Any) -> dict[str, Any]:
    return a_dict(value[0]) if isinstance(value, list) and value else {}


def _anthropic(record: dict[str, Any]) -> bool:
    request = a_dict(record.get("request")) or record
    messages = request.get("messages")
    blocks = [block for m in messages[:50] for block in _blocks(m)] if isinstance(messages, list) else []
    kinds = {a_dict(block).get("type") for block in blocks}
    tools = request.get("tools")
    return bool(kinds & {"tool_use", "tool_result", "thinking"}) or "input_schema" in _first(tools)


def _blocks(message: Any) -> list[Any]:
    content = a_dict(message).get("content")
    return content if isinstance(content, list) else []


def _rendered(record: dict[str, Any]) -> bool:
    marks = ("<|im_start|>", "<|start_header_id|>")
    return any(isinstance(value, str) and any(mark in value for mark in marks) for value in record.values())


def _span(record: dict[str, Any]) -> bool:
    if "resourceSpans" in record or "resource_spans" in record:
        return True
    given = record.get("attributes")
    names = [a_dict(one).get("key") for one in given] if isinstance(given, list) else list(a_dict(given))
    return any(isinstance(name, str) and name.startswith("gen_ai.") for name in names)


def _event(record: dict[str, Any]) -> bool:
    return "source" in record and ("action" in record or "observation" in record) and "kind" not in record


def _sdk_event(record: dict[str, Any]) -> bool:
    return str(record.get("kind", "")).endswith("Event")


def _codex(record: dict[str, Any]) -> bool:
    return record.get("type") in ("session_meta", "response_item", "turn_context") and "payload" in record


def _claude_code(record: dict[str, Any]) -> bool:
    return ("sessionId" in record and "uuid" in record) or (record.get("type") == "summary" and "leafUuid" in record)


def _rollout(record: dict[str, Any]) -> bool:
    return isinstance(record.get("completion"), list) and "prompt" in record


def _steps(record: dict[str, Any]) -> bool:
    return "info" in record and _first(record.get("trajectory")).keys() >= {"action", "observation"}


def _mini(record: dict[str, Any]) -> bool:
    named = str(record.get("trajectory_format", "")).startswith("mini-swe-agent")
    return named or ("messages" in record and "exit_status" in a_dict(record.get("info")))


_RULES = [
    _Rule("atif", lambda r: str(r.get("schema_version", "")).startswith("ATIF-"), "schema_version is ATIF's"),
    _Rule("adp", _list_of("content", "class_"), "'content' is a list of items tagged by class_"),
    _Rule("otel_genai", _span, "spans with gen_ai.* attributes"),
    _Rule("langsmith", _has("run_type"), "runs with a run_type"),
    _Rule("codex", _codex, "lines of session_meta and response_item"),
    _Rule("claude_code", _claude_code, "lines with sessionId and uuid"),
    _Rule("openhands_sdk", _sdk_event, "events with a kind"),
    _Rule("openhands_sdk", lambda r: _sdk_event(_first(r.get("events"))), "'events' holds events with a kind"),
    _Rule("openhands", _event, "events with source and action or observation"),
    _Rule("openhands", lambda r: _event(_first(r.get("history"))), "'history' holds events with source and action"),
    _Rule("inspect_log", _has("samples", "eval"), "a log with 'eval' and 'samples'"),
    _Rule("inspect_log", _has("messages", "epoch", "scores"), "a sample with messages, epoch and scores"),
    _Rule("nemo_gym", _has("responses_create_params"), "responses_create_params"),
    _Rule("verifiers", _list_of("nodes", "message"), "'nodes' is a tree of messages"),
    _Rule("verifiers", _rollout, "prompt and completion messages"),
    _Rule("sweagent", _has("history", "trajectory"), "history and trajectory"),
    _Rule("sweagent", _steps, "a trajectory of action and observation, with info"),
    _Rule("mini_swe_agent", _mini, "trajectory_format, or messages with info.exit_status"),
    _Rule("xlam", _has("query", "answers", "tools"), "query, tools and answers"),
    _Rule("xlam", _has("task_instruction", "conversation"), "task_instruction and conversation"),
    _Rule("anthropic_messages", _anthropic, "content blocks of tool_use, tool_result or thinking"),
    _Rule("openai_responses", _list_of("output", "type"), "'output' is a list of Responses items"),
    _Rule("openai_responses", _list_of("input", "type"), "'input' is a list of Responses items"),
    _Rule("sharegpt", _list_of("conversations", "from"), "'conversations' of from and value"),
    _Rule("openai_chat", lambda r: _chat_field(r) is not None, "a list of role and content"),
    _Rule("chat_template", _rendered, "text with the marks of a chat template"),
]


def _chat_field(record: dict[str, Any]) -> str | None:
    for name in ("messages", "conversations", "conversation", "trajectory", "input"):
        value = record.get(name)
        if isinstance(value, str) and value.lstrip().startswith("[{"):
            return name
        if "role" in _first(value):
            return name
    return None


def guess(*paths: Path) -> Guess:
    """The importer of the first file that `paths` (files, folders, patterns) name and holds anything, and why.

    Its options come from that file and the next few of the same format. UserError when nothing known fits.
    """
    files = [file.path for file in expand([str(path) for path in paths], Path())]
    path = next((file for file in files if not is_empty(file)), files[0])
    if path.suffix == ".eval":
        return Guess("inspect_log", "the suffix .eval")
    records = records_in(path)
    rule, fitting = _rule(records)
    if rule is None:
        keys = sorted({key for record in records for key in record})
        raise UserError(
            f"No known format fits '{path}'.",
            f"Its records have the fields {', '.join(keys[:20]) or 'none'}.",
            'Name the format, or write a mapping: [[normalize]] use = "mapping" (docs/formats.md).',
        )
    at = files.index(path)
    for more in files[at + 1 : at + FILES]:
        if len(fitting) >= _LOOK:
            break
        try:
            also, others = _rule(records_in(more))
        except (UserError, RecordError):
            continue
        fitting += others if also is rule else []
    return Guess(rule.format, rule.why, *_options(rule.format, fitting))


def format_of(path: Path) -> str | None:
    """The format of one file; None where it holds nothing that any importer knows."""
    if path.suffix == ".eval":
        return "inspect_log"
    try:
        rule, _ = _rule(records_in(path, 3))
    except (UserError, RecordError):
        return None
    return rule.format if rule else None


def _rule(records: list[dict[str, Any]]) -> tuple[_Rule | None, list[dict[str, Any]]]:
    """The first rule that any record fits, and the records that fit it."""
    for rule in _RULES:
        fitting = [record for record in records if rule.fits(record)]
        if fitting:
            return rule, fitting
    return None, []


def is_empty(path: Path) -> bool:
    """Whether a file holds no record at all: no byte but white space, or an empty list."""
    if path.stat().st_size > _SMALL or path.suffix in (".parquet", ".arrow"):
        return False
    return path.read_bytes().removeprefix(BOM).strip().translate(None, b" \r\n\t") in (b"", b"[]")


def records_in(path: Path, most: int = _LOOK) -> list[dict[str, Any]]:
    """The first objects of a file, whatever its shape; UserError where there is none."""
    shape = shape_of(path)
    found: list[Any] = []
    if shape is Shape.TABLE:
        found = _rows(path, most)
    else:
        spans, size = [], 0
        for span in spans_of(path, shape):
            spans.append((span.offset, span.length))
            size += span.length
            if len(spans) == most or size > _BYTES:
                break
        for piece in read_spans(path, spans):
            try:
                found.append(decode(piece.raw).value)
            except RecordError:
                continue
    if not found:
        with path.open("rb") as file:
            head = file.read(200).removeprefix(BOM)
        if not head.strip():
            raise UserError(f"'{path}' is empty.")
        raise UserError(f"No record of '{path}' can be read.", f"It begins with {head[:60]!r}.")
    records: list[dict[str, Any]] = []
    for value in found:
        if isinstance(value, list):
            records.append({"messages": value} if "role" in _first(value) else _first(value))
        elif isinstance(value, dict):
            records.append(value)
    return records


def _rows(path: Path, most: int) -> list[Any]:
    """The first rows of a table, which may have fewer."""
    found: list[Any] = []
    with suppress(RecordError):
        found.extend(read_rows(path, range(most)))
    return found


def _chats(fmt: str, records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The turns of records whose format leaves the encoding of calls to options."""
    chats: list[list[dict[str, Any]]] = []
    for record in records:
        field = _chat_field(record) if fmt == "openai_chat" else "conversations"
        turns = record.get(field or "")
        if isinstance(turns, str):
            try:
                turns = decode(turns.encode("utf-8", "surrogatepass")).value
            except RecordError:
                continue
        if isinstance(turns, list):
            chats.append([a_dict(turn) for turn in turns])
    return chats


def _options(fmt: str, records: list[dict[str, Any]]) -> Hidden:
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
