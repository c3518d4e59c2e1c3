"""verifiers: rollout rows (`prompt`, `completion`, `reward`) and traces (a tree of message nodes with tokens).

Every leaf of a trace is a trajectory; the first is the whole, the others branch off it. A node stores the tokens
that it adds, so a model call's prompt is what the path before it adds up to.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from schemas.errors import RecordError
from schemas.rows import TokenSpan
from schemas.trajectory import Outcome, Policy
from tasks.normalize.base import Importer
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.known import lose_unknown
from tasks.normalize.reading import Reading
from tasks.normalize.strict import decode
from tasks.normalize.transcript import a_dict, a_list, an_object, plain_reader, token_span, transcript
from tasks.normalize.usage import number

_NODE = frozenset({"parent", "message", "sampled", "token_ids", "mask", "logprobs", "finish_reason", "usage"})
_TOP = frozenset({"id", "nodes", "calls", "tools", "rewards", "agent"})


class Verifiers(Importer, frozen=True, kw_only=True):
    """Reads both; rewards are kept whole, the score is their weighted sum."""

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory a rollout row, or one for every branch of a trace."""
        record = an_object(record)
        if isinstance(record.get("nodes"), list):
            return _trace(record, self.drop_fields)
        prompt, completion = record.get("prompt"), record.get("completion")
        if prompt is None and completion is None:
            raise RecordError("no_messages", "neither 'nodes' nor 'prompt' and 'completion'")
        messages = [*_turns(prompt, "user"), *_turns(completion, "assistant")]
        draft = Draft()
        spans = _spans_of_calls(record.get("trajectory"), messages)
        known = {"prompt", "completion", "tool_defs", "oai_tools"} | ({"trajectory"} if spans else set())
        info = a_dict(record.get("info"))
        tools = record.get("tool_defs") or record.get("oai_tools") or info.get("oai_tools")
        return (transcript(messages, draft, record, tools=tools, known=known, drop=self.drop_fields, spans=spans),)


def _turns(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return [_flat(turn) for turn in a_list(value, role)]


def _flat(message: Any) -> Any:
    """verifiers' calls are flat, or JSON text of OpenAI's."""
    if not isinstance(message, dict) or not isinstance(message.get("tool_calls"), list):
        return message
    calls = [decode(call.encode()).value if isinstance(call, str) else call for call in message["tool_calls"]]
    return {**message, "tool_calls": calls}


def _spans_of_calls(calls: Any, messages: list[Any]) -> list[tuple[int, TokenSpan]]:
    """The token spans of the recorded model calls, when there is one for every turn of the agent."""
    turns = [index for index, turn in enumerate(messages) if isinstance(turn, dict) and turn.get("role") == "assistant"]
    if not isinstance(calls, list) or len(calls) != len(turns):
        return []
    spans: list[tuple[int, TokenSpan]] = []
    for index, call in zip(turns, calls, strict=True):
        tokens = call.get("tokens") if isinstance(call, dict) else None
        if isinstance(tokens, dict):
            span = token_span(tokens.get("prompt_ids"), tokens.get("completion_ids"), tokens.get("completion_logprobs"))
            if span is not None:
                spans.append((index, span))
    return spans


def _trace(record: dict[str, Any], drop: Sequence[str]) -> list[Reading]:
    nodes = [an_object(node, "a node") for node in record["nodes"]]
    parents = [_parent(node, index) for index, node in enumerate(nodes)]
    inner = set(parents)
    leaves = [index for index in range(len(nodes)) if index not in inner]
    if not leaves:
        raise RecordError("no_messages", "the trace holds no node")
    paths = [_path(leaf, parents) for leaf in leaves]
    calls = {call["node"]: call for call in a_list(record.get("calls"), "calls") if _is_node(call)}
    return [_branch(record, nodes, paths, number, calls, drop) for number in range(len(paths))]


def _is_node(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(call.get("node"), int)


def _parent(node: dict[str, Any], index: int) -> int | None:
    parent = node.get("parent")
    if parent is None:
        return None
    if not isinstance(parent, int) or isinstance(parent, bool) or not 0 <= parent < index:
        raise RecordError("bad_tree", f"node {index} has the parent {parent!r}")
    return parent


def _path(leaf: int, parents: list[int | None]) -> list[int]:
    path: list[int] = []
    at: int | None = leaf
    while at is not None:
        path.append(at)
        at = parents[at]
    return path[::-1]


def _branch(
    record: dict[str, Any],
    nodes: list[dict[str, Any]],
    paths: list[list[int]],
    number_of: int,
    calls: dict[int, dict[str, Any]],
    drop: Sequence[str],
) -> Reading:
    path = paths[number_of]
    draft = Draft()
    lose_unknown(draft, record.get("agent"), "config{model} name trainable", "agent")
    trainable = a_dict(record.get("agent")).get("trainable")
    if isinstance(trainable, bool):
        draft.extra["trainable"] = trainable
    lose_unknown(draft, record.get("calls"), "node model usage finish_reason", "calls")
    messages: list[Any] = []
    spans: list[tuple[int, TokenSpan]] = []
    before: list[Any] = []
    for node_index in path:
        node = nodes[node_index]
        draft.lose_rest(node, _NODE, "nodes[]")
        message = dict(an_object(node.get("message"), "a node's message"))
        call = calls.get(node_index, {})
        for name in ("finish_reason", "usage", "model"):
            value = call.get(name) or node.get(name)
            if value is not None and message.get("role") == "assistant":
                message.setdefault(name, value)
        if message.get("role") == "assistant" and node.get("sampled") is False:
            message["weight"] = 0.0  # shown to the model, not sampled from it
        ids, mask = a_list(node.get("token_ids"), "token_ids"), a_list(node.get("mask"), "mask")
        sampled = [token for token, is_sampled in zip(ids, mask, strict=False) if is_sampled]
        scaffold = ids[: len(ids) - len(sampled)]
        span = token_span([*before, *scaffold], sampled, node.get("logprobs"), model=message.get("model"))
        if span is not None:
            spans.append((len(messages), span))
        before.extend(ids)
        messages.append(_flat(message))
    reading = transcript(
        messages,
        draft,
        record,
        tools=record.get("tools"),
        known=_TOP,
        drop=drop,
        outcome=_outcome(record.get("rewards")),
        policy=_policy(record),
        source_id=_key(record, number_of),
        spans=spans,
        parent=0 if number_of else None,
    )
    if not number_of:
        return reading
    shared = len([1 for mine, first in zip(path, paths[0], strict=False) if mine == first])
    point = _step_at(messages[:shared])
    return Reading(msgspec.structs.replace(reading.trajectory, branch_point=point), reading.spans, 0)


def _step_at(messages: list[Any]) -> int:
    """How many steps the shared messages make."""
    draft = Draft()
    if messages:
        plain_reader().read(messages, draft)
    return len(draft.steps)


def _key(record: dict[str, Any], number_of: int) -> str | None:
    key = record.get("id")
    return (f"{key}#{number_of}" if number_of else key) if isinstance(key, str) else None


def _policy(record: dict[str, Any]) -> Policy:
    agent = a_dict(record.get("agent"))
    model, name = a_dict(agent.get("config")).get("model"), agent.get("name")
    return Policy(
        model=model if isinstance(model, str) else None,
        harness="verifiers",
        role=name if isinstance(name, str) else None,
    )


def _outcome(rewards: Any) -> Outcome:
    if not isinstance(rewards, dict) or not rewards:
        return Outcome()
    parts = [(number(r.get("score")), number(r.get("weight", 1.0))) for r in rewards.values() if isinstance(r, dict)]
    values = [float(score) * float(weight) for score, weight in parts if score is not None and weight is not None]
    return Outcome(score=sum(values) if values else None, raw_json=compact({"rewards": rewards}))
