"""What an importer reads is what the lake gives back, whatever the source holds; nothing of it goes missing.

Random conversations with half surrogates, NUL, empty lists and texts, parallel calls, media, embedded subagents and
branches go through the real stage: file → rows → Parquet → rows.
"""

import base64
import json
import string
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.recipe import Recipe
from schemas.trajectory import Provenance, Trajectory, text_of
from schemas.vocabulary import Kind, PartType
from tasks.context import Context
from tasks.normalize.base import Importer
from tasks.operator import WorkingSet
from tasks.registry import build
from warehouse.blobs import Blobs
from warehouse.lake import Lake, Stamp

ODD = [
    "",
    "\x00",
    "a\x00b",
    "\ufeff",
    "\r\n",
    "\u2028",
    "\ud83c",
    "\udf78",
    "\ud83c\udf78",
    "x\ud800y",
    "007",
    "null",
    "<",
    "é",
]
TEXT = st.text(max_size=8) | st.sampled_from(ODD) | st.tuples(st.sampled_from(ODD), st.sampled_from(ODD)).map("".join)
WORD = st.text(string.ascii_lowercase, min_size=1, max_size=6)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORD, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(WORD, VALUE, max_size=2)
BYTES = st.binary(min_size=1, max_size=12)


def image(data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(data).decode()}"}}


def sound(data: bytes) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": "mp3"}}


CONTENT = TEXT | st.lists(
    st.builds(image, BYTES) | st.builds(sound, BYTES) | st.builds(lambda text: {"type": "text", "text": text}, TEXT),
    max_size=3,
)


@st.composite
def conversations(draw: st.DrawFn) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(CONTENT)}]
    for turn in range(draw(st.integers(1, 3))):
        calls = draw(st.lists(st.tuples(WORD, ARGUMENTS), max_size=3))
        message: dict[str, Any] = {"role": "assistant", "content": draw(TEXT | st.none())}
        if draw(st.booleans()):
            message["reasoning_content"] = draw(TEXT)
        if calls:
            message["tool_calls"] = [
                {"id": f"c{turn}_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                for n, (name, given) in enumerate(calls)
            ]
        messages.append(message)
        for n in draw(st.permutations(range(len(calls)))):
            messages.append({"role": "tool", "content": draw(CONTENT), "tool_call_id": f"c{turn}_{n}"})
    return {
        "messages": messages,
        "tools": draw(st.just([]) | st.lists(ARGUMENTS, max_size=1)),
        "resolved": draw(st.booleans()),
    }


@st.composite
def families(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    """An ATIF trajectory that may hold those of its subagents, and theirs."""
    name = draw(st.uuids()).hex
    children = draw(st.lists(families(depth + 1), max_size=2)) if depth < 2 else []
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": draw(TEXT)}]
    for number, child in enumerate(children):
        call = {"tool_call_id": f"c{number}", "function_name": "delegate", "arguments": draw(ARGUMENTS)}
        result = {
            "source_call_id": f"c{number}",
            "content": draw(TEXT),
            "subagent_trajectory_ref": [{"trajectory_id": child["trajectory_id"]}],
        }
        steps.append(
            {"step_id": number + 2, "source": "agent", "message": draw(TEXT), "tool_calls": [call],
             "observation": {"results": [result]}}
        )  # fmt: skip
    steps.append({"step_id": len(steps) + 1, "source": "agent", "message": draw(TEXT) + "."})
    record = {
        "schema_version": "ATIF-v1.8",
        "trajectory_id": name,
        "agent": {"name": "a", "version": "1"},
        "steps": steps,
    }
    return {**record, "subagent_trajectories": children} if children else record


def joined(text: str) -> str:
    """Halves of a pair that stand beside each other are one character; any other half is replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def imported(use: str, records: list[dict[str, Any]], lake: Lake) -> list[list[Trajectory]]:
    """The rows of every record, after they were in the lake; equal to what the importer made."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "all.jsonl"
        file.write_bytes(b"\n".join(json.dumps(record).encode() for record in records))
        importer = build(Kind.IMPORTER, {"use": use, "paths": [str(file)]})
        assert isinstance(importer, Importer)
        ctx = Context(Recipe(name="test"), lake, "run", Path(folder), Path(folder) / "out")
        items = importer.plan(WorkingSet(), ctx).items
        result = importer.run(items, ctx)
    assert not result.dead and not result.pending
    rows = result.rows["trajectories"]
    lake.append(Stamp("run", "test", "f" * 32), dict(result.rows))
    made = {item.item_id: item.outputs for item in result.outcomes}
    kept = [lake.trajectories(list(made[item.id])) for item in items]
    # The same record, read in an earlier example, keeps the line number that it had there.
    known = {row.id: msgspec.structs.replace(row, provenance=Provenance()) for row in rows}
    assert sum(map(len, kept)) == len(rows)
    for row in (row for group in kept for row in group):
        assert msgspec.structs.replace(row, provenance=Provenance()) == known[row.id]
    return kept


LAW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@LAW
@given(records=st.lists(conversations(), min_size=1, max_size=4))
def test_a_conversation_comes_back_from_the_lake_as_it_was_said(lake: Lake, records: list[dict[str, Any]]) -> None:
    blobs = Blobs(lake)
    for record, group in zip(records, imported("openai_chat", records, lake), strict=True):
        [row] = group
        said = [message for message in record["messages"] if message["role"] == "assistant"]
        steps = [step for step in row.steps if step.source == "agent"]
        for message, step in zip(said, steps, strict=True):
            assert text_of(step.content) == joined(message["content"] or "")
            assert (step.reasoning or "") == joined(message.get("reasoning_content") or "")
            calls = message.get("tool_calls", [])
            assert [call.name for call in step.tool_calls] == [call["function"]["name"] for call in calls]
            for call, asked_for in zip(step.tool_calls, calls, strict=True):
                arguments = json.loads(asked_for["function"]["arguments"])
                wanted = json.loads(joined(json.dumps(arguments, ensure_ascii=False)))
                assert json.loads(str(call.arguments_json)) == wanted
        asked = {m["tool_call_id"]: m["content"] for m in record["messages"] if m["role"] == "tool"}
        found = {r.source_call_id: r.content for step in row.steps for r in step.results}
        assert asked.keys() == found.keys()
        pairs = [(record["messages"][0]["content"], row.steps[0].content), *((asked[key], found[key]) for key in asked)]
        for content, parts in pairs:
            wanted_parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            assert len(parts) == len(wanted_parts)
            for part, piece in zip(parts, wanted_parts, strict=True):
                if part.type is PartType.TEXT:
                    assert part.text == joined(piece["text"])
                else:
                    inner = piece.get("image_url") or piece.get("input_audio")
                    body = inner.get("data") or inner["url"].partition(",")[2]
                    assert blobs.get(str(part.sha256)) == base64.b64decode(body)
        halves = json.dumps(record, ensure_ascii=False)
        if "\ufffd" in joined(halves) and "\ufffd" not in halves:
            assert row.provenance.replaced_text
        assert row.outcome.success is record["resolved"]


@LAW
@given(records=st.lists(families(), min_size=1, max_size=2))
def test_links_between_agents_lead_to_rows_of_the_lake(lake: Lake, records: list[dict[str, Any]]) -> None:
    def names(record: dict[str, Any]) -> list[str]:
        return [record["trajectory_id"], *(n for c in record.get("subagent_trajectories", []) for n in names(c))]

    def edges(record: dict[str, Any]) -> set[tuple[str, int, str]]:
        own = {
            (record["trajectory_id"], number + 1, child["trajectory_id"])
            for number, child in enumerate(record.get("subagent_trajectories", []))
        }
        return own.union(*(edges(child) for child in record.get("subagent_trajectories", [])))

    for record, group in zip(records, imported("atif", records, lake), strict=True):
        assert [row.source_id for row in group] == names(record)
        by_id = {row.id: row for row in group}
        found = {
            (row.source_id, link.step, by_id[link.trajectory_id].source_id) for row in group for link in row.subagents
        }
        assert found == edges(record)
        for row in group:
            calls = {call.id for step in row.steps for call in step.tool_calls}
            assert {link.call_id for link in row.subagents} <= calls


def test_long_observations_come_back_whole(lake: Lake) -> None:
    """Five million characters in a result, a page of as many bytes beside it, and NULs in both."""
    text = "line \x00 of output\n" * 320_000
    assert len(text) > 5_000_000
    call = {"id": "c", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
    chat = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": text},
        {"role": "assistant", "content": "done"},
    ]
    [[row]] = imported("openai_chat", [{"messages": chat}], lake)
    assert text_of(row.steps[1].results[0].content) == text
    page = {"class_": "web_observation", "html": text, "axtree": "", "url": None}
    [[row]] = imported("adp", [{"id": "p", "content": [page], "details": {}}], lake)
    pages = {part.media_type: Blobs(lake).get(str(part.sha256)).decode() for part in row.steps[0].content}
    assert pages == {"text/html": text, "text/x-axtree": ""}
