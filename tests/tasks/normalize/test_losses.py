"""Nothing is dropped silently: a field that no format knows, put anywhere, is kept or named in `lost_fields`."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from schemas.errors import RecordError
from schemas.vocabulary import Kind
from tasks.normalize.strict import decode_file
from tasks.registry import build

EXAMPLES = Path(__file__).parent / "examples"
FILES = sorted(path for path in EXAMPLES.iterdir() if path.suffix != ".toml")

# Places inside of something that is named as a whole, or read only where it is referred to.
WHOLE = {
    "claude_code": [["toolUseResult"], ["usage"]],  # blocks of one answer repeat its usage
    "inspect_log": [["events"], ["attachments"]],
    "langsmith": [["inputs"], ["outputs"]],  # of runs that are no model calls
    "openhands": [["args"], ["extras"], ["model_response", "tool_calls"]],
    "openhands_sdk": [["action"]],  # the call says the same
    "otel_genai": [["resource"], ["attributes"]],
    "sweagent": [["state"]],
}
# Lines that say nothing of the conversation; their type is named.
SILENT = {"summary", "event_msg", "ConversationStateUpdateEvent"}


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        yield path
        for key, inner in value.items():
            yield from objects(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, (*path, index))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_field_nobody_knows_is_kept_or_named(path: Path) -> None:
    mapped = {"map": str(EXAMPLES / "mapping.toml")} if path.stem == "mapping" else {}
    importer: Any = build(Kind.IMPORTER, {"use": path.stem, "paths": [], **mapped})
    importer.fingerprint(SimpleNamespace(path=Path, recipe=SimpleNamespace(seed=0)))
    whole = importer.takes_whole(path)
    lines = path.read_bytes().splitlines()
    records = (
        [decode_file(path.read_bytes()).value] if whole or path.suffix != ".jsonl" else [json.loads(x) for x in lines]
    )
    unexplained = []
    for record in records:
        for place in objects(record):
            if any(set(words) <= set(map(str, place)) for words in WHOLE.get(path.stem, [])):
                continue
            changed = copy.deepcopy(record)
            holder = at(changed, place)
            if place and isinstance(place[0], int) and SILENT & {str(x) for x in changed[place[0]].values()}:
                continue
            holder["zq_field"] = "zq_value"
            try:
                found = importer.read(changed)
            except RecordError:
                continue
            text = msgspec.json.encode([(one.trajectory, one.spans) for one in found]).decode()
            if "zq_field" not in text and "zq_value" not in text:
                unexplained.append(place)
    assert unexplained == []
