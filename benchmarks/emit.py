"""Chats → token rows ready to write: tokens per second of CPU time, beside the raw tokenizer over the same text.

Ours renders each chat with its template, tokenises, finds what the policy said, builds ids, labels, masks and
segments, checks every rule of the row and packs the rows into an Arrow table. The peers get the rendered text for
nothing and only tokenise it: `tokenizers` (encode_batch, as users call it) and `tokenizers_fast` (encode_batch_fast,
without offsets). All in turn, thread pools of one, median of the runs; the first round warms caches and is left out.

Two sets of the same size: `distinct` shares nothing between rows and is the figure; `rollouts` has eight samples of
each task behind one system prompt with tools, as rollouts do, and is printed beside it.

    python benchmarks/emit.py [--json] [--runs N] [--rows N] [--model DIR]
"""

import argparse
import json
import os
import random
import resource
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SYLLABLES = [first + second for first in "bcdfghjklmnprstvwz" for second in "aeiou"]
CODE = ["return", "self.", "import", "(index)", "= None", "for", "in", "range(", "):\n    ", "#", '"value"', "{", "}\n"]


def word(rng: random.Random) -> str:
    """A word that no vocabulary knows as a whole, or a piece of code."""
    return rng.choice(CODE) if rng.random() < 0.4 else "".join(rng.choices(SYLLABLES, k=rng.randint(1, 4)))


def text(rng: random.Random, words: int) -> str:
    """Prose and code, `words` words long."""
    return " ".join(word(rng) for _ in range(words))


def chats(rng: random.Random, rows: int, samples: int) -> list[Any]:
    """Agent chats of about 3,000 tokens, 1 kB a message as in public agent sets: system prompt with three tools,
    question, four calls with results, an answer. With `samples` above 1 so many share a question, all the prompt.
    """
    from tasks.emit.messages import Chat

    made = []
    system, tools, question = text(rng, 150), toolbox(rng), text(rng, 100)
    for row in range(rows):
        if row % samples == 0:
            question = text(rng, 100)
        if samples == 1:
            system, tools = text(rng, 150), toolbox(rng)
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        for turn in range(4):
            arguments = {"path": text(rng, 4), "line": turn}
            call = {"id": f"c{turn}", "type": "function", "function": {"name": "tool_1", "arguments": arguments}}
            messages.append({"role": "assistant", "content": text(rng, 60), "tool_calls": [call]})
            messages.append({"role": "tool", "content": text(rng, 150)})
        messages.append({"role": "assistant", "content": text(rng, 100)})
        made.append(Chat(messages, tools, list(range(len(messages)))))
    return made


def toolbox(rng: random.Random) -> list[Any]:
    """Three tools."""
    shape = {"type": "object", "properties": {"path": {"type": "string"}, "line": {"type": "integer"}}}
    return [
        {"type": "function", "function": {"name": f"tool_{i}", "description": text(rng, 8), "parameters": shape}}
        for i in range(3)
    ]


def trajectories(given: list[Any]) -> list[Any]:
    """The same chats as trajectories with one step a message, so that weights and masks have something to read."""
    from schemas.trajectory import Step, ToolCall, Trajectory, text_part
    from schemas.vocabulary import Source

    source = {"system": Source.SYSTEM, "user": Source.USER, "assistant": Source.AGENT, "tool": Source.ENVIRONMENT}
    made = []
    for number, chat in enumerate(given):
        steps = []
        for message in chat.messages:
            calls = tuple(
                ToolCall(id=call["id"], name="tool_1", arguments_json=json.dumps(call["function"]["arguments"]))
                for call in message.get("tool_calls", ())
            )
            steps.append(Step(source=source[message["role"]], content=text_part(message["content"]), tool_calls=calls))
        made.append(Trajectory(id=f"{number:032x}", steps=tuple(steps)))
    return made


def cpu(work: Callable[[], int]) -> float:
    """Tokens per CPU second."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    tokens = work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return tokens / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def ways(folder: Path, given: list[Any]) -> dict[str, Callable[[], int]]:
    """Ours and the peers over one set."""
    import pyarrow as pa

    from tasks.emit.rows import SCHEMA, columns
    from tasks.emit.shards import table_of
    from tasks.emit.tokenise import Draft, tokenise
    from tasks.emit.tokenizer import ChatTokenizer

    tokenizer = ChatTokenizer.load(folder)
    drafts = [Draft(one, (), (), chat) for one, chat in zip(trajectories(given), given, strict=True)]
    texts = [tokenizer.template.render(chat)[0] for chat in given]
    schema = pa.schema([field for field in SCHEMA if field.name in NAMES])

    def ours() -> int:
        # A fresh memory each time: nothing that an earlier run tokenised is used again.
        tokenizer.forget()
        rows = [columns(row) for each in tokenise(drafts, tokenizer) for row in each.rows]
        table = table_of(rows, schema)
        assert table.num_rows == len(given)
        return len(table["input_ids"].combine_chunks().values)

    def raw(encode: Callable[..., list[Any]]) -> Callable[[], int]:
        return lambda: sum(len(found.ids) for found in encode(texts, add_special_tokens=False))

    backend = tokenizer.backend
    return {"ours": ours, "tokenizers": raw(backend.encode_batch), "tokenizers_fast": raw(backend.encode_batch_fast)}


NAMES = {"input_ids", "attention_mask", "labels", "loss_mask", "loss_weights", "logprobs", "segments"}


def main() -> None:
    """Measures both sets and prints one JSON object, or a few lines."""
    parser = argparse.ArgumentParser(description="Tokens per second and core: render, tokenise, mask, pack.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    if options.model is None:
        from tasks.rollout.engine.model_files import prepare_model

        options.model = prepare_model()
    sets: dict[str, dict[str, float]] = {}
    tokens = 0
    for name, samples in (("distinct", 1), ("rollouts", 8)):
        found = ways(options.model, chats(random.Random(0), options.rows, samples))
        tokens = max(tokens, found["tokenizers"]())
        seen: dict[str, list[float]] = {way: [] for way in found}
        for run in range(options.runs + 1):
            for way, work in found.items():
                speed = cpu(work)
                if run:
                    seen[way].append(speed)
        sets[name] = {way: statistics.median(values) for way, values in seen.items()}
    figure, peers = sets["distinct"]["ours"], {way: sets["distinct"][way] for way in ("tokenizers", "tokenizers_fast")}
    shared = sets["rollouts"]
    report = {
        "figure": round(figure),
        "unit": "tokens/s/core (render, tokenise, mask, pack)",
        "peers": {way: round(speed) for way, speed in peers.items()},
        "ratio": {way: round(figure / speed, 2) for way, speed in peers.items()},
        "rollouts": {
            "figure": round(shared["ours"]),
            "ratio": {way: round(shared["ours"] / shared[way], 2) for way in peers},
        },
        "tokens": tokens,
        "runs": options.runs,
    }
    if options.json:
        print(json.dumps(report))
        return
    print(f"{report['figure']:,} {report['unit']}, {tokens:,} tokens")
    for way, speed in peers.items():
        again = shared["ours"] / shared[way]
        print(
            f"  {way} alone: {speed:,.0f}; ours is {figure / speed:.2f} of that, {again:.2f} where prompts are shared"
        )


if __name__ == "__main__":
    main()
