"""The command line starts fast, explains mistakes without a traceback, and uses its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def gristmill(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gristmill", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nimport gristmill.cli\n"
        "heavy = {'prefect', 'duckdb', 'polars', 'pyarrow', 'torch', 'transformers', 'datasets', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "absent.toml"), "No recipe at 'absent.toml'"),
        (("validate", "absent.toml"), "No recipe at 'absent.toml'"),
        (("query", "select 1", "--lake", "absent"), "No lake at 'absent'"),
        (("funnel", "--lake", "absent"), "No lake at 'absent'"),
        (("show", "abc", "--lake", "absent"), "No lake at 'absent'"),
        (("plugins", "nowhere"), "Unknown stage 'nowhere'"),
        (("bench", "nothing"), "Unknown benchmark 'nothing'"),
        (("train", "absent", "--method", "sft"), "No folder of shards at 'absent'"),
        (("train", ".", "--method", "magic"), "Unknown trainer 'magic'"),
        (("export", "x", "--format", "magic", "--out", "o"), "Unknown exporter 'magic'"),
        (("import", "magic", "x.jsonl"), "Unknown importer 'magic'"),
    ],
)
def test_a_mistake_is_explained_and_exits_2(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    done = gristmill(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_plugins_lists_each_with_its_options() -> None:
    done = gristmill("plugins", "synthesize", "--json")
    assert done.returncode == 0, done.stderr
    found = {plugin["id"]: plugin for plugin in json.loads(done.stdout)}
    assert "dataset" in found["reasoning_gym"]["options"]
    assert all(plugin["what"] for plugin in found.values())
