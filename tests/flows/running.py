"""What the flow tests share: the teacher server's handle, a recipe for it, the command line as a user calls it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests" / "peers" / "chat_server.py"


class Peer(NamedTuple):
    """A running teacher server: where it is, and the log of what it answered."""

    url: str
    log: Path

    def answered(self) -> int:
        return len(self.log.read_text(encoding="utf-8").splitlines()) if self.log.exists() else 0


def recipe_text(url: str, samples: int = 4, count: int = 4) -> str:
    return f"""
name = "small"
seed = 3
out = "{{out}}"
[teacher]
use = "openai"
base_url = "{url}"
model = "peer"

[[synthesize]]
use = "reasoning_gym"
dataset = "chain_sum"
count = {count}
config = {{min_terms = 2, max_terms = 2, min_digits = 1, max_digits = 1}}

[[synthesize]]
use = "programs"
names = ["add", "is_even", "square", "reverse_string"]

[[rollout]]
use = "direct"
samples = {samples}

[[verify]]
use = "reasoning_gym"

[[verify]]
use = "unit_tests"

[[refine]]
use = "saar_rollback"

[[label]]
use = "error_mask"

[[curate]]
use = "structural"

[[curate]]
use = "verified"

[[curate]]
use = "exact"

[[curate]]
use = "near_duplicate"

[[pair]]
use = "verified_pairs"

[[emit]]
use = "trl_sft"
name = "sft"

[[emit]]
use = "trl_grpo"
name = "rl"

[[emit]]
use = "trl_dpo"
name = "dpo"
"""


def gristmill(
    *arguments: str, cwd: Path, timeout: int = 600, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command line; its lake is ./lake of `cwd`."""
    return subprocess.run(
        [sys.executable, "-m", "gristmill", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )
