"""The refresh flow with Prefect's RayTaskRunner decides as it does in this process; skipped where there is no Ray."""

import json
import random
from pathlib import Path

import pytest

from tests.flows.running import gristmill
from warehouse.lake import Lake

RECIPE = """
name = "on_ray"
[[normalize]]
use = "openai_chat"
paths = ["chats.jsonl"]

[[curate]]
use = "exact"

[[curate]]
use = "near_duplicate"
view = "actions"
"""


def chats(count: int) -> str:
    """Chats of which every fourth copies an earlier one, and every eighth is edited besides."""
    rng = random.Random(1)
    answers: list[list[str]] = []
    for number in range(count):
        copied = number % 4 == 0 and bool(answers)
        words = list(rng.choice(answers)) if copied else [f"w{rng.randrange(3000)}" for _ in range(40)]
        if number % 8 == 0:
            words[3] = "edited"
        answers.append(words)
    said = [[("user", f"question {n % 7}"), ("assistant", " ".join(words))] for n, words in enumerate(answers)]
    records = ({"messages": [{"role": role, "content": text} for role, text in one]} for one in said)
    return "".join(f"{json.dumps(record)}\n" for record in records)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_refresh_on_ray_decides_as_in_this_process(tmp_path: Path) -> None:
    pytest.importorskip("prefect_ray", reason="pip install --no-deps -r requirements-ray.lock")
    # More than one partition of signatures, so that the curating task spreads them itself.
    (tmp_path / "chats.jsonl").write_text(chats(2200), encoding="utf-8")
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    found = []
    for where, cluster in (("here", ""), ("ray", "local")):
        env = {"GRISTMILL_RAY": cluster}
        ended = gristmill("run", "recipe.toml", "--lake", where, "--json", cwd=tmp_path, env=env)
        assert ended.returncode == 0, ended.stderr[-2000:]
        with Lake.open(tmp_path / where, read_only=True) as lake:
            query = "select item_id, operator, decision, reason, score, evidence_json from decisions order by all"
            found.append(lake.sql(query).to_pylist())
    here, on_ray = found
    assert sum(row["decision"] == "drop" for row in here) > 100
    assert on_ray == here
