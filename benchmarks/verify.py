"""Isolated test executions per second and core: a fresh jail per candidate with a fork per test, and two peers.

All three run the same candidate (a small function with 20 tests, results returned as JSON) in turn:

- ours: `Sandbox.call_functions`, every protection on, results compared in the trusted process;
- subprocess: one plain `python -I -S` per test, no protection at all;
- bubblewrap: one plain `bwrap` around the same per test (namespaces, read-only system, nothing more).

CPU time of this process and its children (getrusage), one at a time, median of the runs; the ratio is the figure
that holds from machine to machine.

Besides, the wall-clock time of one candidate with one test, with a jail prepared ahead and without (50 ms apart, so
that there is time to prepare one).

    python benchmarks/verify.py [--json] [--runs N] [--candidates N]
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

TESTS = 20
CODE = """
def run_length(text):
    pairs = []
    for char in text:
        if pairs and pairs[-1][0] == char:
            pairs[-1][1] += 1
        else:
            pairs.append([char, 1])
    return pairs
"""
INPUTS = [("ab" * 5 + "c" * (i % 5 + 1)) * 3 for i in range(TESTS)]


def wanted(text: str) -> list[list[object]]:
    """The expected value, worked out here."""
    space: dict[str, Callable[[str], list[list[object]]]] = {}
    exec(CODE, space)
    return space["run_length"](text)


def cpu() -> float:
    """CPU seconds of this process and of every child that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(work: Callable[[], int]) -> float:
    """Tests per CPU second."""
    before = cpu()
    done = work()
    return done / (cpu() - before)


def ours(candidates: int) -> tuple[Callable[[], int], Callable[[], None], str]:
    """The product's own way, with comparison outside; also how to end it, and its mode."""
    from tasks.sandbox.results import Call
    from tasks.sandbox.sandbox import Sandbox
    from tasks.verify.answers.compare import equal

    box = Sandbox.start(1)
    calls = [Call(entry="run_length", args=[text]) for text in INPUTS]
    expected = [wanted(text) for text in INPUTS]

    def work() -> int:
        for _ in range(candidates):
            ran = box.call_functions(CODE, calls)
            assert all(equal(want, got.value) for want, got in zip(expected, ran.results, strict=True)), ran
        return candidates * TESTS

    return work, box.close, box.mode


def latency(warm: int, rounds: int = 20) -> float:
    """Milliseconds from the call to its result, median."""
    from tasks.sandbox.results import Call
    from tasks.sandbox.sandbox import Sandbox

    box = Sandbox.start(1, warm=warm)
    took = []
    try:
        for _ in range(rounds):
            time.sleep(0.05)
            started = time.perf_counter()
            box.call_functions(CODE, [Call(entry="run_length", args=["aab"])])
            took.append(time.perf_counter() - started)
    finally:
        box.close()
    return statistics.median(took) * 1000


def per_test(prefix: list[str]) -> Callable[[], int]:
    """One process per test, behind `prefix`."""
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    expected = [wanted(text) for text in INPUTS]

    def work() -> int:
        for text, want in zip(INPUTS, expected, strict=True):
            script = f"{CODE}\nimport json\nprint(json.dumps(run_length({text!r})))"
            ran = subprocess.run([*prefix, python, "-I", "-S", "-c", script], capture_output=True, check=True, env={})
            assert json.loads(ran.stdout) == want
        return TESTS

    return work


def main() -> None:
    """Measures all in turn and prints one JSON object, or a few lines."""
    parser = argparse.ArgumentParser(description="Isolated test executions per second and core.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--candidates", type=int, default=20)
    options = parser.parse_args()
    work, close, mode = ours(options.candidates)
    ways: dict[str, Callable[[], int]] = {"gristmill": work, "subprocess": per_test([])}
    bwrap = shutil.which("bwrap")
    if bwrap:
        # --as-pid-1, so that the time used inside is counted to us when bwrap ends.
        bound = [
            part
            for folder in ("/usr", "/lib", "/lib64", "/bin")
            if Path(folder).exists()
            for part in ("--ro-bind", folder, folder)
        ]
        ways["bubblewrap"] = per_test(
            [bwrap, "--unshare-all", "--as-pid-1", *bound, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        )
    figures: dict[str, list[float]] = {name: [] for name in ways}
    started = time.monotonic()
    try:
        for _ in range(options.runs):
            for name, way in ways.items():
                figures[name].append(measure(way))
    finally:
        close()
    waits = {name: round(latency(warm), 1) for name, warm in (("prepared", 1), ("cold", 0))}
    median = {name: statistics.median(each) for name, each in figures.items()}
    figure = median.pop("gristmill")
    report = {
        "figure": round(figure, 1),
        "unit": "isolated tests/s/core (20 tests a candidate)",
        "peers": {name: round(each, 1) for name, each in median.items()},
        "ratio": {name: round(figure / each, 2) for name, each in median.items()},
        "mode": mode,
        "latency_ms": waits,
        "runs": options.runs,
        "seconds": round(time.monotonic() - started, 1),
        "cores": len(os.sched_getaffinity(0)),
    }
    if options.json:
        print(json.dumps(report))
        return
    print(f"{report['figure']} {report['unit']}, mode {mode}")
    print(f"  one candidate: {waits['prepared']} ms in a prepared jail, {waits['cold']} ms in one started for it")
    for name, each in median.items():
        print(f"  {name}: {each:.1f} tests/s, ours is {figure / each:.1f} times that")


if __name__ == "__main__":
    main()
