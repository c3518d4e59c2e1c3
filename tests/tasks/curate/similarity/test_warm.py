"""What is compiled ahead is all that the selectors run: no first refresh waits for a compiler."""

import importlib

from tasks.curate.selector.containment import Containment
from tasks.curate.selector.decontaminate import Decontaminate
from tasks.curate.selector.near_duplicate import NearDuplicate
from tasks.curate.selector.split import Split
from tasks.curate.similarity.warm import warm

MODULES = ("contain", "greedy", "links", "ngrams", "shingles", "sketch")


def compiled():
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"tasks.curate.similarity.{name}")
        for key, value in vars(module).items():
            if hasattr(value, "signatures"):
                found[name, key] = len(value.signatures)
    return found


def test_selectors_run_what_was_compiled(bench, make):
    warm()
    before = compiled()
    (bench.ctx.recipe_dir / "bench.txt").write_text(
        "a line of a benchmark with thirteen words at least so that it counts\n"
    )
    ids = bench.add(*(make("q", f"alpha beta gamma delta epsilon zeta eta {n // 2}", sample=n) for n in range(6)))
    for selector in (NearDuplicate(), Containment(min_shingles=1), Split(), Decontaminate(benchmark="bench.txt")):
        bench.select(selector, ids)
    assert compiled() == before
    assert len(before) > 15
