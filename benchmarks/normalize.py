"""Raw JSONL on disk → validated interlingua in Parquet: records per second of CPU time, per shape of record.

Records are generated to the median size, turns and calls of four public agent sets. Ours is what `gristmill import`
does with them: the importer's plan (content hash of every record), its batches, its `run` (strict decoding, reading,
decisions), the table as the lake takes it, Parquet; the kernels are compiled before, as `gristmill setup` does. The
peer, given with --peer DIR (a checkout of the agent-data-protocol project), is its converter
`datasets/NAME/raw_to_standardized.py` over the same file, less its start-up. Both in turn, the peer in a process a run,
ours in one a shape, five runs, median, CPU time. The peer compresses nothing, so by default neither do we; --codec says
otherwise, and `size` what our file takes beside the raw one. `lake` is the rate of the same records committed to a real
lake, which compresses with zstd: plan, run, and `Lake.append` batch by batch.

Our Parquet has row groups of 32 MB, pages of 128 kB, and statistics of the top-level scalar columns, by which queries
skip; values inside of lists have none.

    python benchmarks/normalize.py [--peer DIR] [--codec lz4|zstd|snappy|none] [--json] [--runs N]
"""

import argparse
import gc
import json
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Bytes of a row group and of a page: the one costs some 60 columns to open and close, the other stays in the cache.
ROW_GROUP, PAGE = 32 << 20, 128 << 10
WORDS = ["value", "self", "return", "result", "the", "import", "test", "data", "= None", "(index)", "path", "error:"]


class Shape(NamedTuple):
    """A kind of record: importer entry, the peer's folder, how many records a run takes, and how one is made."""

    entry: dict[str, Any]
    folder: str
    count: int
    make: Callable[[random.Random, int], dict[str, Any]]


def prose(rng: random.Random, size: int) -> str:
    """About `size` characters of code-like lines, a quote or line break every 25."""
    lines, left = [], size
    while left > 0:
        line = " " * rng.choice((0, 4, 8)) + " ".join(rng.choices(WORDS, k=5)) + rng.choice(('"', "", "'x'"))
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)[:size]


def swe_smith(rng: random.Random, number: int) -> dict[str, Any]:
    """45 turns, 69 kB: 22 calls in `<function=…>` text, 21 observations of very unequal length."""
    messages = [{"role": "system", "content": prose(rng, 3900)}, {"role": "user", "content": prose(rng, 2300)}]
    sizes = [int(2300 * rng.lognormvariate(-0.7, 1.2)) for _ in range(21)]
    scale = 49_000 / sum(sizes)
    for turn in range(22):
        name = "submit" if turn == 21 else rng.choice(("bash", "str_replace_editor"))
        keys = {"bash": ["command"], "submit": [], "str_replace_editor": ["command", "path", "old_str"]}[name]
        given = "".join(f"<parameter={key}>{prose(rng, 70)}</parameter>\n" for key in keys)
        text = f"{prose(rng, 150)}\n\n<function={name}>\n{given}</function>"
        messages.append({"role": "assistant", "content": text})
        if turn < 21:
            messages.append({"role": "user", "content": f"OBSERVATION:\n{prose(rng, int(sizes[turn] * scale))}"})
    key = f"repo__{number}"
    return {
        "messages": messages,
        "instance_id": key,
        "resolved": rng.random() < 0.5,
        "model": "teacher",
        "traj_id": key,
        "patch": prose(rng, 3000),
        "id": key,
    }


def code_feedback(rng: random.Random, number: int) -> dict[str, Any]:
    """4 turns, 5.3 kB, with one executed block."""
    block = f"{prose(rng, 600)}\n\n```python\n{prose(rng, 900)}\n```\n\n{prose(rng, 500)}"
    contents = [prose(rng, 600), block, f"Execution result: \n{prose(rng, 150)}", prose(rng, 1900)]
    roles = ("user", "assistant", "user", "assistant")
    return {"id": number, "messages": [{"role": r, "content": c} for r, c in zip(roles, contents, strict=True)]}


def agenttuning_os(rng: random.Random, number: int) -> dict[str, Any]:
    """14 turns, 3.9 kB, fenced bash."""
    turns = [
        {"role": "user", "content": prose(rng, 1250)},
        {"role": "assistant", "content": f"Think: {prose(rng, 80)}\n\nAct: bash\n\n```bash\n{prose(rng, 40)}\n```"},
    ]
    while len(turns) < 13:
        turns.append({"role": "user", "content": f"The output of the OS:\n{prose(rng, 130)}"})
        text = f"Think: {prose(rng, 90)}\n\nAct: bash\n\n```bash\n{prose(rng, 40)}\n```"
        turns.append({"role": "assistant", "content": text})
    turns[-1]["content"] = f"Think: {prose(rng, 60)}\n\nAct: answer(220)"
    return {"id": f"os_{number}", "conversations": turns}


def agenttuning_alfworld(rng: random.Random, number: int) -> dict[str, Any]:
    """20 turns, 3.4 kB, THOUGHT and ACTION lines."""
    turns = [
        {"role": "user", "content": prose(rng, 1330)},
        {"role": "assistant", "content": "OK. I'll follow your instructions and try my best to solve the task."},
        {"role": "user", "content": f"Here is your task. {prose(rng, 230)}"},
    ]
    for turn in range(9):
        thought = f"THOUGHT: {prose(rng, 60)}\n" if turn in (0, 5) else ""
        turns.append({"role": "assistant", "content": f"{thought}ACTION: go to shelf {rng.randrange(9)}"})
        if turn < 8:
            turns.append({"role": "user", "content": f"On the shelf 1, you see a {rng.choice(WORDS)} 1."})
    return {"id": f"alfworld_{number}", "conversations": turns}


CHAT = {"use": "openai_chat", "dataset": "benchmark"}
SHAPES = {
    "swe-smith": Shape(
        {**CHAT, "calls": ["function_xml"], "observation": ["OBSERVATION:\n?"]}, "swe-smith", 1200, swe_smith
    ),
    "code_feedback": Shape(
        {**CHAT, "calls": ["fenced:python"], "observation": ["Execution result: ?\n?"], "only_observed": True},
        "code_feedback",
        6000,
        code_feedback,
    ),
    "agenttuning_os": Shape(
        {**CHAT, "calls": ["fenced:bash", "react:Act"], "observation": ["The output of the OS:\n?"]},
        "agenttuning_os",
        6000,
        agenttuning_os,
    ),
    "agenttuning_alfworld": Shape(
        {**CHAT, "calls": ["react:ACTION"], "observation": [""]}, "agenttuning_alfworld", 6000, agenttuning_alfworld
    ),
}


def cpu() -> float:
    """CPU seconds of this process and its ended children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def scalars(schema: Any) -> list[str]:
    """The columns that queries skip row groups by; least and greatest of the texts inside of steps help nobody."""
    import pyarrow as pa

    return [field.name for field in schema if not pa.types.is_nested(field.type)]


def _settle() -> None:
    """Takes what is there out of the collector's sight, as a command does once its modules are imported."""
    gc.collect()
    gc.freeze()


def ours(shape: Shape, file: Path, out: Path, codec: str) -> float:
    """CPU seconds of the whole way with one core."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from schemas.vocabulary import Kind
    from tasks.normalize.columnar.warm import warm
    from tasks.operator import WorkingSet
    from tasks.registry import build
    from warehouse.arrow import to_arrow

    warm()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    importer: Any = build(Kind.IMPORTER, {**shape.entry, "paths": [str(file)]})
    ctx: Any = SimpleNamespace(recipe_dir=file.parent, recipe=SimpleNamespace(seed=0), path=Path)
    statistics_of = scalars(to_arrow("trajectories", []).schema)
    # The file of the run before goes first: taking its pages back is no part of writing this one.
    out.unlink(missing_ok=True)
    _settle()
    start = cpu()
    # Without this buffer, every page header is a write of its own.
    sink = pa.BufferedOutputStream(pa.OSFile(str(out), "wb"), PAGE)
    writer = None
    held: list[Any] = []
    kept = 0
    batches = [batch for page in importer.pages(WorkingSet(), ctx) for batch in importer.batches(page.items)]
    for number, batch in enumerate(batches, 1):
        result = importer.run(batch, ctx)
        kept += len(result.outcomes)
        held.append(to_arrow("trajectories", result.rows["trajectories"]))
        if sum(table.nbytes for table in held) >= ROW_GROUP or number == len(batches):
            writer = writer or pq.ParquetWriter(
                sink,
                held[0].schema,
                compression=codec,
                use_dictionary=False,
                data_page_size=PAGE,
                write_statistics=statistics_of,
            )
            writer.write_table(pa.concat_tables(held))
            held = []
    if writer is not None:
        writer.close()
    sink.close()
    used = cpu() - start
    if kept != shape.count or pq.read_metadata(out).num_rows != kept:
        raise SystemExit(f"{file.name}: {kept} of {shape.count} records")
    return used


def committed(shape: Shape, file: Path, folder: Path) -> float:
    """CPU seconds of the way into a lake that was opened before."""
    from schemas.vocabulary import Kind
    from tasks.operator import WorkingSet
    from tasks.registry import build
    from warehouse.lake import Lake, Stamp

    importer: Any = build(Kind.IMPORTER, {**shape.entry, "paths": [str(file)]})
    with Lake.open(folder) as lake:
        ctx: Any = SimpleNamespace(recipe_dir=file.parent, recipe=SimpleNamespace(seed=0), path=Path, lake=lake)
        _settle()
        start = cpu()
        by = Stamp("benchmark", "openai_chat", importer.fingerprint(ctx))
        added = 0
        for page in importer.pages(WorkingSet(), ctx):
            for batch in importer.batches(page.items):
                rows = importer.run(batch, ctx).rows["trajectories"]
                added += lake.append(by, {"trajectories": rows})["trajectories"]
        used = cpu() - start
    if added != shape.count:
        raise SystemExit(f"{file.name}: {added} of {shape.count} records in the lake")
    return used


def theirs(peer: Path, shape: Shape, file: Path) -> float:
    """CPU seconds of the peer's converter over the file."""
    folder = peer / "datasets" / shape.folder
    start = cpu()
    with file.open("rb") as given:
        subprocess.run(
            [sys.executable, "raw_to_standardized.py"],
            stdin=given,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{peer}:{folder}"},
            check=True,
        )
    return cpu() - start


def _ours(name: str, *given: Any) -> float:
    return ours(SHAPES[name], *given)


def _committed(name: str, *given: Any) -> float:
    return committed(SHAPES[name], *given)


def _process() -> ProcessPoolExecutor:
    """A process of its own: what another shape, or DuckDB, leaves behind in one costs a tenth of the rate."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def measure(peer: Path | None, runs: int, codec: str) -> dict[str, dict[str, float]]:
    """Records per second of each shape: ours, and the peer's where there is one; size of our file to the raw one."""
    found: dict[str, dict[str, float]] = {}
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder, _process() as reading, _process() as committing:
            rng = random.Random(7)
            file, empty = Path(folder) / f"{name}.jsonl", Path(folder) / "empty.jsonl"
            file.write_text("".join(json.dumps(shape.make(rng, number)) + "\n" for number in range(shape.count)))
            empty.touch()
            out = Path(folder) / "out.parquet"
            rates: dict[str, list[float]] = {"ours": [], "lake": [], "adp": []}
            for number in range(runs):
                lake = Path(folder) / f"lake-{number}"
                rates["ours"].append(shape.count / reading.submit(_ours, name, file, out, codec).result())
                rates["lake"].append(shape.count / committing.submit(_committed, name, file, lake).result())
                if peer is not None:
                    idle = theirs(peer, shape, empty)
                    rates["adp"].append(shape.count / max(theirs(peer, shape, file) - idle, 1e-6))
            found[name] = {who: round(statistics.median(each), 1) for who, each in rates.items() if each}
            found[name]["size"] = round(out.stat().st_size / file.stat().st_size, 2)
    return found


def main() -> None:
    """Prints figure, unit, peers, ratio and the rate per shape as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path, help="a checkout of the agent-data-protocol project")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--codec", choices=["lz4", "zstd", "snappy", "none"], default="none")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    given = parser.parse_args()
    if given.peer is not None and not (given.peer / "datasets").is_dir():
        parser.error(f"{given.peer} is no checkout of the agent-data-protocol project (it has no folder 'datasets')")
    rates = measure(given.peer, given.runs, given.codec)
    result = {
        "figure": rates["swe-smith"]["ours"],
        "unit": "swe-smith-shaped records/s/core",
        "peers": {f"adp {name}": rate["adp"] for name, rate in rates.items() if "adp" in rate},
        "ratio": {f"adp {n}": round(r["ours"] / r["adp"], 2) for n, r in rates.items() if "adp" in r},
        "shapes": {name: rate["ours"] for name, rate in rates.items()},
        "lake": {name: rate["lake"] for name, rate in rates.items()},
        "codec": given.codec,
        "size": {name: rate["size"] for name, rate in rates.items()},
    }
    print(json.dumps(result, indent=None if given.json else 2))


if __name__ == "__main__":
    main()
