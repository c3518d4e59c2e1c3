"""A whole recipe with vLLM's offline engine as a child process of its own environment."""

import json
import os
from pathlib import Path

import pytest

from tests.flows.running import gristmill

PYTHON = os.environ.get("GRISTMILL_VLLM_PYTHON", "")

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not PYTHON, reason="GRISTMILL_VLLM_PYTHON is not set"),
]

RECIPE = f"""
name = "vllm"
seed = 5
[teacher]
use = "vllm"
python = "{PYTHON}"

[[synthesize]]
use = "programs"
names = ["add", "is_even", "square", "maximum"]

[[synthesize]]
use = "rephrase_qa"
min_meaning = 0.0

[[rollout]]
use = "direct"
samples = 4
max_tokens = 120

[[rollout]]
use = "code"
samples = 2
max_turns = 2
max_tokens = 120

[[verify]]
use = "unit_tests"

[[refine]]
use = "saar_rollback"

[[curate]]
use = "verified"

[[emit]]
use = "trl_sft"

[[emit]]
use = "tokens"
"""


def test_a_whole_recipe_runs_on_the_child_engine(tmp_path: Path) -> None:
    (tmp_path / "vllm.toml").write_text(RECIPE, encoding="utf-8")
    first = gristmill("run", "vllm.toml", "--json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)
    entries = {(entry["stage"], entry["name"]): entry for entry in summary["entries"]}
    for harness in ("direct", "code"):
        entry = entries["rollout", harness]
        assert entry["n_kept"] == entry["n_in"] > 0, entry
    judged = entries["verify", "unit_tests"]
    assert judged["n_kept"] == judged["n_in"] == sum(entries["rollout", name]["n_in"] for name in ("direct", "code"))
    assert judged["reasons"].get("pass", 0) > 0, judged
    assert entries["refine", "saar_rollback"]["n_seen"] == judged["n_in"]
    asked = gristmill("query", "select distinct engine from token_spans", "--format", "json", cwd=tmp_path)
    assert all("vllm" in json.loads(line)["engine"].lower() for line in asked.stdout.splitlines())
    assert asked.stdout

    again = gristmill("run", "vllm.toml", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["calls"].get("calls", 0) == 0
