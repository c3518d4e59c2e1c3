"""A long file is planned and read in bounded memory, whatever its length."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPT = """
import resource, sys
from pathlib import Path
from types import SimpleNamespace
from schemas.vocabulary import Kind
from tasks.operator import WorkingSet
from tasks.registry import build
importer = build(Kind.IMPORTER, {"use": "openai_chat", "paths": [sys.argv[1]]})
ctx = SimpleNamespace(recipe_dir=Path("/"), recipe=SimpleNamespace(seed=0), path=Path)
items = importer.plan(WorkingSet(), ctx).items
kept = 0
for first in range(0, len(items), importer.batch_size):
    kept += len(importer.run(items[first : first + importer.batch_size], ctx).outcomes)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for count in (1_000, 8_000):
        file = tmp_path / f"{count}.jsonl"
        with file.open("w") as out:
            for number in range(count):
                messages = [
                    {"role": "user", "content": f"{number} " + "x" * 20_000},
                    {"role": "assistant", "content": "a"},
                ]
                out.write(json.dumps({"messages": messages}) + "\n")
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(file)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        kept, peak = map(int, ran.stdout.split())
        assert kept == count
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 60_000, f"peaks in KiB: {peaks}"  # 140 MB more of data
