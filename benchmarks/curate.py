"""Curation at scale: a lake of synthetic trajectories with planted duplicates, CPU time a trajectory and peak memory.

    python benchmarks/curate.py [--items N] [--json] [--lake DIR]

Every tenth trajectory copies an earlier one, every tenth edits a few words of one. `exact` and `near_duplicate` run
over the whole set as a recipe runs them. The lake is made first (not measured) and kept where --lake names it.
planted: how many copies and edits there are; dropped: how many each selector dropped.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

WORDS, BATCH = 120, 10_000


def texts(count: int) -> Iterator[tuple[str, str]]:
    """Texts with what each is: new, copy or edit."""
    rng = random.Random(5)
    vocabulary = ["".join(rng.choices("etaoinshrdlucmfw", k=rng.randint(2, 9))) for _ in range(50_000)]
    # Copies are made of recent texts, so that generating needs no memory of them all.
    recent: list[list[str]] = []
    for number in range(count):
        what = {8: "copy", 9: "edit"}.get(number % 10, "new")
        if what == "new" or not recent:
            words = rng.choices(vocabulary, k=WORDS)
            recent.append(words)
            del recent[:-2000]
        else:
            words = list(rng.choice(recent))
            if what == "edit":
                words[rng.randrange(WORDS)] = rng.choice(vocabulary)
        yield " ".join(words), what


def fill(lake: Any, count: int) -> dict[str, int]:
    """Writes the trajectories; how many of each sort."""
    from schemas.ids import with_id
    from schemas.trajectory import Policy, Step, Trajectory, text_part
    from schemas.vocabulary import Source
    from warehouse.lake import Stamp

    counts = {"new": 0, "copy": 0, "edit": 0}
    batch: list[Any] = []
    for number, (text, what) in enumerate(texts(count)):
        counts[what] += 1
        steps = (
            Step(source=Source.USER, content=text_part(text[:60])),
            Step(source=Source.AGENT, content=text_part(text)),
        )
        batch.append(with_id(Trajectory(id="", steps=steps, sample_index=number, policy=Policy(teacher="t")), "f"))
        if len(batch) == BATCH or number == count - 1:
            lake.append(Stamp("bench", "bench", "f"), {"trajectories": batch})
            batch = []
    return counts


def measure(count: int, folder: Path) -> dict[str, Any]:
    """Curates the lake in `folder`."""
    from schemas.recipe import Recipe
    from tasks.context import Context
    from tasks.curate.selector.exact import Exact
    from tasks.curate.selector.near_duplicate import NearDuplicate
    from tasks.operator import WorkingSet
    from warehouse.lake import Lake

    lake = Lake.open(folder / "lake")
    counts = fill(lake, count)
    ctx = Context(Recipe(name="bench"), lake, "bench", folder, folder)
    ids = tuple(lake.sql("select id from trajectories order by created_at, id").column(0).to_pylist())
    used: dict[str, float] = {}
    dropped: dict[str, int] = {}
    start_wall = time.monotonic()
    for selector in (Exact(), NearDuplicate(view="actions")):
        start = resource.getrusage(resource.RUSAGE_SELF)
        result = selector.run(selector.plan(WorkingSet(trajectories=ids), ctx).items, ctx)
        end = resource.getrusage(resource.RUSAGE_SELF)
        name = selector.plugin_id()
        used[name] = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
        dropped[name] = sum(outcome.decision.value == "drop" for outcome in result.outcomes)
    wall = time.monotonic() - start_wall
    lake.close()
    return {
        "figure": round(count / sum(used.values()), 1),
        "unit": "trajectories/s of CPU, exact and near_duplicate",
        "peers": {},
        "ratio": {},
        "items": count,
        "microseconds_per_item": {name: round(1e6 * seconds / count, 1) for name, seconds in used.items()},
        "wall_seconds": round(wall, 1),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "planted": counts,
        "dropped": dropped,
    }


def main() -> None:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--lake", type=Path, help="an empty folder for the lake, to keep it")
    parser.add_argument("--peer", default="", help="unused; there is no peer")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(asked.items, asked.lake or Path(folder)), indent=None if asked.json else 2))


if __name__ == "__main__":
    main()
