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
        (("plugins", "nowhere"), "No stage or plug-in 'nowhere'"),
        (("plugins", "near_duplicat"), "Did you mean 'near_duplicate'?"),
        (("bench", "nothing"), "Unknown benchmark 'nothing'"),
        (("train", "absent", "--method", "sft"), "No folder of shards at 'absent'"),
        (("train", ".", "--method", "magic"), "Unknown trainer 'magic'"),
        (("export", "x", "--format", "magic", "--out", "o"), "Unknown exporter 'magic'"),
        (("export", "x", "--format", "openai_chat", "--out", "/"), "'/' holds files that are no shards"),
        (("import", "magic", "x.jsonl"), "Unknown importer 'magic'"),
        (("import", "openai_chat", "absent.jsonl"), "No data file at"),
        (("import", "openai_chat", "absent.jsonl", "--dataset", "My Logs"), "--dataset 'My Logs' is no name"),
        (("import", "openai_chat", "absent.jsonl", "--option", "calls"), "--option 'calls' is not KEY=VALUE"),
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


def test_plugins_shows_one_in_full() -> None:
    done = gristmill("plugins", "near_duplicate")
    assert done.returncode == 0, done.stderr
    assert "threshold: least Jaccard similarity" in " ".join(done.stdout.split())
    assert "threshold = 0.8" in done.stdout


RECIPE = """
name = "checked"
[teacher]
use = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
{teacher}
[[synthesize]]
use = "reasoning_gym"
dataset = "{dataset}"
config = {config}
[[curate]]
use = "decontaminate"
benchmark = "{benchmark}"
"""


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"teacher": "timeout_s = -1"}, "timeout_s = -1"),
        ({"teacher": "temperature = nan"}, "temperature = nan is not a number"),
        ({"teacher": "temprature = 1"}, "Did you mean 'temperature'?"),
        ({"dataset": "chain_sums"}, "Unknown reasoning-gym data set 'chain_sums'"),
        ({"config": "{min_trems = 2}"}, "config of reasoning-gym data set 'chain_sum' does not fit"),
        ({"benchmark": "absent.jsonl"}, "No benchmark at 'absent.jsonl'"),
    ],
)
def test_validate_finds_what_a_run_would_stumble_over(tmp_path: Path, changed: dict[str, str], says: str) -> None:
    (tmp_path / "there.jsonl").write_text('{"question": "q"}\n')
    good = {"teacher": "", "dataset": "chain_sum", "config": "{min_terms = 2}", "benchmark": "there.jsonl"}
    (tmp_path / "good.toml").write_text(RECIPE.format(**good))
    (tmp_path / "bad.toml").write_text(RECIPE.format(**good | changed))
    assert gristmill("validate", "good.toml", cwd=tmp_path).returncode == 0
    done = gristmill("validate", "bad.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
