"""The declarative mapping: which field of an unknown record is what, without code.

A small TOML file (or the same tables in a recipe's entry):

    [record]                     # paths are dotted: "meta.id", "choices.0.message"
    id = "instance_id"
    model = "model_name"
    success = "status"
    success_values = ["resolved"]
    score = "reward"
    tools = "tool_schemas"

    [turns]                      # a list of turns …
    at = "trajectory"
    role = "role"
    content = ["text", "system_prompt"]
    roles = { ai = "agent" }
    weight = "mask"
    calls = ["fenced:bash"]
    observation = [""]

    [turns.call]                 # calls as fields of a turn
    at = "actions"
    name = "tool"
    arguments = "args"

    [[columns]]                  # … or columns that are one turn each
    at = "prompt"
    source = "user"
"""

import tomllib
from collections.abc import Mapping as Object
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import RecordError, UserError
from schemas.trajectory import Base, Outcome
from schemas.vocabulary import ActionSpace, Source
from tasks.normalize.decoder.found import compact
from tasks.normalize.dialect import Dialect
from tasks.normalize.draft import Draft
from tasks.normalize.known import lose_unknown
from tasks.normalize.strict import decode
from tasks.normalize.usage import number

Paths = str | tuple[str, ...]


class RecordMap(Base, frozen=True):
    """Paths of what a record says about itself. success_values: the values of `success` that mean success."""

    id: str | None = None
    model: str | None = None
    tools: str | None = None
    licence: str | None = None
    success: str | None = None
    success_values: tuple[Any, ...] = ()
    score: str | None = None
    drop: tuple[str, ...] = ()


class CallMap(Base, frozen=True):
    """Calls as fields of a turn: `at` is one call or a list of them, the other paths start from a call."""

    at: str
    name: str = "name"
    arguments: str = "arguments"
    id: str | None = None
    result: str | None = None


class TurnMap(Base, frozen=True):
    """A list of turns. Paths start from a turn; the rest is `tasks.normalize.dialect.Dialect`'s."""

    at: str = "messages"
    role: str = "role"
    content: Paths = "content"
    reasoning: str | None = None
    name: str | None = None
    timestamp: str | None = None
    weight: str | None = None
    reward: str | None = None
    call_id: str | None = None
    call: CallMap | None = None
    roles: dict[str, str] = {}
    calls: tuple[str, ...] = ()
    observation: tuple[str, ...] = ()
    only_observed: bool = False
    think: bool = False


class Column(Base, frozen=True):
    """A column that is a turn of `source`."""

    at: str
    source: Source


class Mapping(Base, frozen=True):
    """A whole mapping: turns, or columns (then `turns` only says how the agent's text is written).

    action_space: how the agent acts, where the calls do not show it.
    """

    record: RecordMap = RecordMap()
    turns: TurnMap | None = None
    columns: tuple[Column, ...] = ()
    action_space: ActionSpace | None = None


def load_mapping(path: Path) -> Mapping:
    """The mapping in a TOML file; UserError when there is none or it says something unknown."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"The mapping '{path}' cannot be read: {error.strerror}.") from error
    try:
        return msgspec.convert(tomllib.loads(text), Mapping)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        known = [field.name for field in msgspec.structs.fields(TurnMap)]
        raise UserError(
            f"The mapping '{path}' does not fit: {error}.",
            f"Known in [turns]: {', '.join(known)}.",
            "See docs/formats.md.",
        ) from error


def at(value: Any, path: str) -> Any:
    """What stands at a dotted path, None where the way breaks off."""
    for key in path.split("."):
        if isinstance(value, Object):
            value = value.get(key)
        elif isinstance(value, list) and key.lstrip("-").isdigit() and -len(value) <= int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def dialect_of(turns: TurnMap) -> Dialect:
    """How the mapped turns are written; roles keep their own names."""
    return Dialect(
        calls=turns.calls,
        observation=turns.observation,
        only_observed=turns.only_observed,
        roles=turns.roles,
        think=turns.think,
    )


def turns_of(record: dict[str, Any], mapping: Mapping, draft: Draft) -> list[Any]:
    """The record's turns in the shape of chat messages. Raises RecordError."""
    if mapping.columns:
        turns = [{"role": _ROLE[c.source], "content": at(record, c.at)} for c in mapping.columns]
        return [turn for turn in turns if turn["content"] not in (None, "")]
    spec = mapping.turns or TurnMap()
    given = at(record, spec.at)
    if isinstance(given, str):
        given = decode(given.encode("utf-8", "surrogatepass")).value
    if not isinstance(given, list):
        raise RecordError("no_messages", f"no list of turns at '{spec.at}'")
    made: list[Any] = []
    for turn in given:
        made.extend(_turn(turn, spec, draft) if isinstance(turn, dict) else [turn])
    return made


_ROLE = {Source.SYSTEM: "system", Source.USER: "user", Source.AGENT: "assistant", Source.ENVIRONMENT: "tool"}


def _turn(turn: dict[str, Any], spec: TurnMap, draft: Draft) -> list[dict[str, Any]]:
    contents = (spec.content,) if isinstance(spec.content, str) else spec.content
    named = {
        "role": spec.role,
        "reasoning_content": spec.reasoning,
        "name": spec.name,
        "timestamp": spec.timestamp,
        "weight": spec.weight,
        "reward": spec.reward,
        "tool_call_id": spec.call_id,
    }
    made: dict[str, Any] = {key: at(turn, path) for key, path in named.items() if path is not None}
    made["content"] = next((found for path in contents if (found := at(turn, path)) is not None), None)
    calls = at(turn, spec.call.at) if spec.call is not None else None
    results: list[dict[str, Any]] = []
    if spec.call is not None and calls:
        many = calls if isinstance(calls, list) else [calls]
        own = (spec.call.name, spec.call.arguments, spec.call.id, spec.call.result)
        lose_unknown(draft, many, " ".join(path.split(".")[0] for path in own if path), "turns[].call")
        made["tool_calls"] = [_call(call, spec.call) for call in many]
        if spec.call.result is not None:
            results = [_result(call, spec.call) for call in many if at(call, spec.call.result) is not None]
    used = {path.split(".")[0] for path in [*contents, *named.values(), spec.call.at if spec.call else None] if path}
    made.update({key: value for key, value in turn.items() if key not in used and key not in made})
    return [made, *results]


def _call(call: Any, spec: CallMap) -> dict[str, Any]:
    key = at(call, spec.id) if spec.id is not None else None
    return {"id": key, "function": {"name": at(call, spec.name), "arguments": at(call, spec.arguments)}}


def _result(call: Any, spec: CallMap) -> dict[str, Any]:
    value = at(call, spec.result or "")
    key = at(call, spec.id) if spec.id is not None else None
    return {"role": "tool", "tool_call_id": key, "content": value if isinstance(value, str) else compact(value)}


def outcome_of(record: dict[str, Any], spec: RecordMap) -> Outcome | None:
    """The outcome at the mapped paths; None when none is mapped."""
    if spec.success is None and spec.score is None:
        return None
    flag = at(record, spec.success) if spec.success is not None else None
    score = number(at(record, spec.score)) if spec.score is not None else None
    success = flag in spec.success_values if spec.success_values and flag is not None else flag
    raw = {path: value for path in (spec.success, spec.score) if path and (value := at(record, path)) is not None}
    return Outcome(
        success=success if isinstance(success, bool) else None,
        score=None if score is None else float(score),
        raw_json=compact(raw) if raw else None,
    )


def used_fields(mapping: Mapping) -> set[str]:
    """The top-level fields that the mapping reads."""
    spec = mapping.record
    paths = [spec.id, spec.model, spec.tools, spec.licence, spec.success, spec.score]
    paths += [column.at for column in mapping.columns] or [(mapping.turns or TurnMap()).at]
    return {path.split(".")[0] for path in paths if path and "." not in path}


def checked(mapping: Mapping) -> Mapping:
    """The mapping, or a UserError when it maps no turn or an unknown source."""
    if mapping.turns is None and not mapping.columns:
        raise UserError(
            "The mapping maps no turns.", "It needs a table [turns] or [[columns]].", "See docs/formats.md."
        )
    for source in (mapping.turns.roles if mapping.turns else {}).values():
        if source not in set(Source):
            raise UserError(f"A role maps to the unknown source '{source}'.", f"Known: {', '.join(Source)}.")
    return mapping
