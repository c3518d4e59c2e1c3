"""Inspect AI logs: an `EvalLog` (JSON, or a `.eval` archive of samples), or single `EvalSample` records.

Scores are kept whole; the outcome is that of the first scorer: C and I are success and failure, numbers a score.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Outcome, Policy
from tasks.normalize.base import Importer
from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft
from tasks.normalize.known import lose_unknown
from tasks.normalize.reading import Reading
from tasks.normalize.source.archive import opened
from tasks.normalize.strict import Record, decode
from tasks.normalize.transcript import a_dict, a_list, an_object, transcript
from tasks.normalize.usage import number

_KNOWN = frozenset({"id", "epoch", "input", "messages", "output", "scores", "score", "events", "attachments"})
_TURN = frozenset({"id", "source", "tool_calls", "function", "error", "content"})
_CALL = frozenset({"id", "function", "arguments", "type", "parse_error", "view"})
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_UNPACKED = 4 << 30


class InspectLog(Importer, frozen=True, kw_only=True):
    """Reads Inspect logs, one trajectory a sample."""

    def takes_whole(self, path: Path) -> bool:
        """A log is a file of its own; lines of samples are records."""
        return path.suffix in (".eval", ".json")

    def decode_whole(self, raw: bytes) -> Record:
        """The log; of an archive its header and the samples in it."""
        if not raw.startswith(b"PK"):
            return decode(raw)
        with opened(raw, _UNPACKED) as archive:
            names = sorted(name for name in archive.names if name.startswith("samples/"))
            samples = [decode(archive.read(name)).value for name in names]
            header = decode(archive.read("header.json")).value if "header.json" in archive.names else {}
        return Record({**(a_dict(header)), "samples": samples})

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory a sample."""
        if isinstance(record, list):
            record = {"samples": record}
        record = an_object(record)
        if "samples" not in record:
            return (_sample(record, {}, set(), self.drop_fields),)
        header = {**a_dict(record.get("eval")), "status": record.get("status")}
        lost = Draft()
        lose_unknown(lost, record, "version status samples eval{task run_id model}", "log")
        return [
            _sample(an_object(one, "a sample"), header, lost.lost, self.drop_fields)
            for one in a_list(record["samples"], "samples")
        ]


def _sample(sample: dict[str, Any], header: dict[str, Any], lost: set[str], drop: Sequence[str]) -> Reading:
    draft = Draft()
    draft.lost.update(lost)
    lose_unknown(draft, sample.get("output"), "model usage choices completion", "output")
    if not isinstance(sample.get("messages"), list):
        raise RecordError("no_messages", "a sample without 'messages'")
    attached = a_dict(sample.get("attachments"))
    messages = [_turn(an_object(_filled(turn, attached), "a message"), draft) for turn in sample["messages"]]
    output = a_dict(sample.get("output"))
    last = next((turn for turn in reversed(messages) if turn.get("role") == "assistant"), None)
    if last is not None and isinstance(output.get("usage"), dict):
        last["usage"] = output["usage"]
    if sample.get("events"):
        draft.lose("events")
    draft.extra.update(
        {name: header[name] for name in ("task", "run_id", "status") if isinstance(header.get(name), str)}
    )
    model = output.get("model") or header.get("model")
    key, epoch = sample.get("id"), sample.get("epoch")
    return transcript(
        messages,
        draft,
        {**sample, "target": None, "expected": sample.get("target")},
        known=_KNOWN,
        drop=drop,
        outcome=_outcome(sample.get("scores") or sample.get("score")),
        policy=Policy(model=model if isinstance(model, str) else None, harness="inspect"),
        source_id=None if key is None else f"{key}" if epoch in (None, 1) else f"{key}#{epoch}",
        truncated=sample.get("limit") is not None,
    )


def _filled(value: Any, attached: dict[str, Any]) -> Any:
    """`value` with attachment references replaced by what they stand for."""
    if isinstance(value, str):
        return attached.get(value.removeprefix("attachment://"), value) if value.startswith("attachment://") else value
    if not attached:
        return value
    if isinstance(value, list):
        return [_filled(item, attached) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, attached) for key, item in value.items()}
    return value


def _turn(turn: dict[str, Any], draft: Draft) -> dict[str, Any]:
    made = {key: value for key, value in turn.items() if key not in _TURN}
    content = turn.get("content")
    if isinstance(content, list):
        thoughts = [part for part in content if isinstance(part, dict) and part.get("type") == "reasoning"]
        lose_unknown(draft, thoughts, "type reasoning", "messages[].content[].reasoning")
        texts = [part["reasoning"] for part in thoughts if isinstance(part.get("reasoning"), str)]
        if texts:
            made["reasoning_content"] = "\n\n".join(texts)
        content = [part for part in content if part not in thoughts]
    made["content"] = content
    if turn.get("role") == "tool":
        if isinstance(turn.get("function"), str):
            made["name"] = turn["function"]
        if isinstance(turn.get("error"), dict):
            lose_unknown(draft, turn["error"], "type message", "messages[].error")
            made["is_error"] = True
            if not content:
                made["content"] = turn["error"].get("message")
    calls = a_list(turn.get("tool_calls"), "tool_calls")
    if calls:
        made["tool_calls"] = [_call(an_object(call, "a tool call"), draft) for call in calls]
    return made


def _call(call: dict[str, Any], draft: Draft) -> dict[str, Any]:
    draft.lose_rest(call, _CALL, "messages[].tool_calls[]")
    if call.get("parse_error"):
        draft.lose("messages[].tool_calls[].parse_error")
    return {"id": call.get("id"), "function": {"name": call.get("function"), "arguments": call.get("arguments")}}


def _outcome(scores: Any) -> Outcome:
    if not isinstance(scores, dict) or not scores:
        return Outcome()
    first = next(iter(scores.values())) if "value" not in scores else scores
    value = first.get("value") if isinstance(first, dict) else first
    score = _LETTERS.get(value) if isinstance(value, str) else number(value)
    success = (
        value if isinstance(value, bool) else {"C": True, "I": False}.get(value) if isinstance(value, str) else None
    )
    return Outcome(success=success, score=None if score is None else float(score), raw_json=compact({"scores": scores}))
