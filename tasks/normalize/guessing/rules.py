"""The marks of every format, from the most peculiar one (a schema version, an event's kind) to the most common one (a
list of messages). The first that fits decides.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tasks.normalize.transcript import a_dict


class Rule(NamedTuple):
    """A format, what its records have, and that in words."""

    format: str
    fits: Callable[[dict[str, Any]], bool]
    why: str


def _has(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda record: all(name in record for name in names)


def _list_of(field: str, key: str) -> Callable[[dict[str, Any]], bool]:
    """Whether `field` is a list whose first object has `key`."""
    return lambda record: bool(first(record.get(field)).keys() & {key})


def first(value: Any) -> dict[str, Any]:
    """The first object of a list; empty where there is none."""
    return a_dict(value[0]) if isinstance(value, list) and value else {}


def _anthropic(record: dict[str, Any]) -> bool:
    request = a_dict(record.get("request")) or record
    messages = request.get("messages")
    blocks = [block for m in messages[:50] for block in _blocks(m)] if isinstance(messages, list) else []
    kinds = {a_dict(block).get("type") for block in blocks}
    tools = request.get("tools")
    return bool(kinds & {"tool_use", "tool_result", "thinking"}) or "input_schema" in first(tools)


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
    return "info" in record and first(record.get("trajectory")).keys() >= {"action", "observation"}


def _mini(record: dict[str, Any]) -> bool:
    named = str(record.get("trajectory_format", "")).startswith("mini-swe-agent")
    return named or ("messages" in record and "exit_status" in a_dict(record.get("info")))


RULES = [
    Rule("atif", lambda r: str(r.get("schema_version", "")).startswith("ATIF-"), "schema_version is ATIF's"),
    Rule("adp", _list_of("content", "class_"), "'content' is a list of items tagged by class_"),
    Rule("otel_genai", _span, "spans with gen_ai.* attributes"),
    Rule("langsmith", _has("run_type"), "runs with a run_type"),
    Rule("codex", _codex, "lines of session_meta and response_item"),
    Rule("claude_code", _claude_code, "lines with sessionId and uuid"),
    Rule("openhands_sdk", _sdk_event, "events with a kind"),
    Rule("openhands_sdk", lambda r: _sdk_event(first(r.get("events"))), "'events' holds events with a kind"),
    Rule("openhands", _event, "events with source and action or observation"),
    Rule("openhands", lambda r: _event(first(r.get("history"))), "'history' holds events with source and action"),
    Rule("inspect_log", _has("samples", "eval"), "a log with 'eval' and 'samples'"),
    Rule("inspect_log", _has("messages", "epoch", "scores"), "a sample with messages, epoch and scores"),
    Rule("nemo_gym", _has("responses_create_params"), "responses_create_params"),
    Rule("verifiers", _list_of("nodes", "message"), "'nodes' is a tree of messages"),
    Rule("verifiers", _rollout, "prompt and completion messages"),
    Rule("sweagent", _has("history", "trajectory"), "history and trajectory"),
    Rule("sweagent", _steps, "a trajectory of action and observation, with info"),
    Rule("mini_swe_agent", _mini, "trajectory_format, or messages with info.exit_status"),
    Rule("xlam", _has("query", "answers", "tools"), "query, tools and answers"),
    Rule("xlam", _has("task_instruction", "conversation"), "task_instruction and conversation"),
    Rule("anthropic_messages", _anthropic, "content blocks of tool_use, tool_result or thinking"),
    Rule("openai_responses", _list_of("output", "type"), "'output' is a list of Responses items"),
    Rule("openai_responses", _list_of("input", "type"), "'input' is a list of Responses items"),
    Rule("sharegpt", _list_of("conversations", "from"), "'conversations' of from and value"),
    Rule("openai_chat", lambda r: chat_field(r) is not None, "a list of role and content"),
    Rule("chat_template", _rendered, "text with the marks of a chat template"),
]


def chat_field(record: dict[str, Any]) -> str | None:
    """The field that holds a record's turns, each with a role."""
    for name in ("messages", "conversations", "conversation", "trajectory", "input"):
        value = record.get(name)
        if isinstance(value, str) and value.lstrip().startswith("[{"):
            return name
        if "role" in first(value):
            return name
    return None
