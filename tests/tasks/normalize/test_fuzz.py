"""Broken records of every format: never a crash or a hang, and every record ends as a trajectory or a dead letter."""

import json
import os
import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.vocabulary import Kind
from tasks.normalize.base import Importer
from tasks.operator import WorkingSet
from tasks.registry import build
from warehouse.arrow import to_arrow
from warehouse.lake import Lake

EXAMPLES = Path(__file__).parent / "examples"
ODD: list[Any] = [
    None, True, 0, -1, 2**63, 1.5, "", "\u0000", "\ud800", "text", "{", "[]", '{"a": 1}',
    [], {}, [[]], [None], [{}],
    {"": None}, {"type": "text"}, {"role": 1}, "<tool_call>", "<function=", "```", "Action:", "<|im_start|>",
    "a" * 5000,
]  # fmt: skip


def mutate(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """`value` with one thing in it changed: replaced, removed, doubled, renamed, cut, retyped."""
    if depth > 12 or rng.random() < 0.08:
        return rng.choice(ODD)
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        made = dict(value)
        kind = rng.randrange(8)
        if kind == 0:
            del made[key]
        elif kind == 1:
            made[rng.choice(["role", "content", "id", "type", "x", key + "s"])] = made.pop(key)
        elif kind == 2:
            made[rng.choice(["name", "tool_calls", "parts", "reward"])] = rng.choice(ODD)
        else:
            made[key] = mutate(rng, made[key], depth + 1)
        return made
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        made_list = list(value)
        kind = rng.randrange(7)
        if kind == 0:
            del made_list[at]
        elif kind == 1:
            made_list.insert(at, made_list[rng.randrange(len(made_list))])
        elif kind == 2:
            rng.shuffle(made_list)
        elif kind == 3:
            made_list.insert(at, rng.choice(ODD))
        else:
            made_list[at] = mutate(rng, made_list[at], depth + 1)
        return made_list
    if isinstance(value, str) and value:
        at = rng.randrange(len(value))
        return rng.choice(
            [value[:at], value[at:], value + value, value[:at] + rng.choice(["\\", '"', "\n", "<", "}"]) + value[at:]]
        )
    return rng.choice(ODD)


def broken_bytes(rng: random.Random, raw: bytes) -> bytes:
    """`raw` with bytes changed, cut out or put in."""
    at, end = sorted(rng.randrange(len(raw) + 1) for _ in range(2))
    return rng.choice(
        [
            raw[:at],
            raw[:at] + raw[end:],
            raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :],
            raw[:at] + raw[at:end] * 2 + raw[end:],
            raw[:at]
            + rng.choice([b"\x00", b"\xff", b"\xef\xbb\xbf", b"NaN", b"\\ud800", b"[" * 300, b"9" * 40])
            + raw[at:],
        ]
    )


def raw_records(path: Path) -> list[bytes]:
    if path.suffix == ".jsonl" and not path.stem.startswith(("claude", "codex", "openhands", "langsmith")):
        return path.read_bytes().splitlines()
    if path.suffix == ".jsonl":
        return [json.dumps([json.loads(line) for line in path.read_text().splitlines()]).encode()]
    return [json.dumps(json.loads(path.read_text())).encode()]


def importer_of(path: Path, **more: Any) -> Importer:
    mapped = {"map": str(EXAMPLES / "mapping.toml")} if path.stem == "mapping" else {}
    made = build(Kind.IMPORTER, {"use": path.stem, "paths": [], **mapped, **more})
    assert isinstance(made, Importer)
    return made


def check(importer: Importer, file: Path, count: int, slowest: float) -> int:
    """Imports a file and accounts for every item; gives how many became trajectories."""
    with Lake.open(file.parent / "lake") as lake:
        return checked(importer, file, count, slowest, lake)


def checked(importer: Importer, file: Path, count: int, slowest: float, lake: Lake) -> int:
    ctx: Any = SimpleNamespace(recipe_dir=file.parent, recipe=SimpleNamespace(seed=0), path=Path, lake=lake)
    items = importer.plan(WorkingSet(), ctx).items
    started = time.process_time()
    result = importer.run(items, ctx)
    assert time.process_time() - started < slowest * max(count, 1), "too slow for its size"
    accounted = (
        [o.item_id for o in result.outcomes] + [d.item_id for d in result.dead] + [p.item_id for p in result.pending]
    )
    assert sorted(accounted) == sorted(item.id for item in items) and not result.pending
    assert all(letter.reason and letter.position for letter in result.dead)
    made = result.rows["trajectories"]
    assert to_arrow("trajectories", made).num_rows == len(made)
    to_arrow("token_spans", result.rows["token_spans"])
    return len(result.outcomes)


def run(folder: Path, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    for path in sorted(EXAMPLES.iterdir()):
        if path.suffix == ".toml":
            continue
        raws = raw_records(path)
        importer = importer_of(path, paths=[str(folder / "fuzz")])
        whole = importer.takes_whole(path)
        lines: list[bytes] = []
        for _ in range(rounds):
            raw = rng.choice(raws)
            if rng.random() < 0.8:
                value = json.loads(raw)
                for _ in range(rng.choice([1, 1, 2, 4])):
                    value = mutate(rng, value)
                raw = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
            else:
                raw = broken_bytes(rng, raw)
            lines.append(raw.replace(b"\n", b" "))
        target = folder / "fuzz"
        target.mkdir(exist_ok=True)
        for old in target.iterdir():
            old.unlink()
        if whole:
            suffix = path.suffix
            for number, line in enumerate(lines):
                (target / f"{number:06d}{suffix}").write_bytes(line)
        else:
            (target / "all.jsonl").write_bytes(b"\n".join(lines))
        check(importer, target, len(lines), 0.05)


def test_mutations_of_every_format(tmp_path: Path) -> None:
    run(tmp_path, rounds=150, seed=int(os.environ.get("GRISTMILL_FUZZ_SEED", "1")))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_mutations_of_every_format(tmp_path: Path) -> None:
    """10,000 mutated records a seed; GRISTMILL_FUZZ sets the seeds, 20 make 200,000 records."""
    for seed in range(int(os.environ.get("GRISTMILL_FUZZ", "2"))):
        run(tmp_path, rounds=500, seed=100 + seed)


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        ("fenced:bash", "```" * 200_000),
        ("fenced:bash", "a```\n" * 200_000),
        ("react", "Action: " * 200_000),
        ("react", "\nAction: x[" * 100_000),
        ("function_xml", "<function=a>" * 100_000),
        ("function_xml", "<function=a><parameter=b></function>" * 50_000),
        ("hermes", "<tool_call>" * 100_000),
        ("hermes", "<tool_call></tool_call>" * 50_000),
        ("execute", "<execute>" * 100_000),
    ],
)
def test_no_text_makes_a_decoder_slow(calls: str, text: str) -> None:
    importer: Any = build(Kind.IMPORTER, {"use": "openai_chat", "paths": [], "calls": [calls]})
    started = time.process_time()
    importer.read({"messages": [{"role": "assistant", "content": text}]})
    assert time.process_time() - started < 5
