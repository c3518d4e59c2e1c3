"""No candidate gets a verdict that it wrote itself."""

import json
import runpy
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.rows import Verdict
from schemas.task import Message, Task, VerifierSpec
from schemas.vocabulary import Trust
from tasks.context import Context
from tasks.verify.base import verifier_of

_TABLE = runpy.run_path(str(Path(__file__).with_name("forgeries.py")))
FORGERIES: list[Any] = _TABLE["FORGERIES"]
SPEC = {
    "entry": "f",
    "tests": [{"args": [3], "expected": _TABLE["SECRET"][0]}, {"args": [[1, 2]], "expected": _TABLE["SECRET"][1]}],
    "timeout_s": 3,
    "cpu_s": 2,
    "memory_mb": 256,
}
TASK = Task(
    id="forged", kind="code", prompt=(Message(role="user", content="?"),),
    verifier=VerifierSpec(use="unit_tests", spec_json=json.dumps(SPEC)),
)  # fmt: skip


@pytest.fixture(scope="module")
def verdicts(bare: Context) -> dict[str, tuple[Verdict, float]]:
    verifier = verifier_of(TASK, bare)

    def judge(forgery: Any) -> tuple[Verdict, float]:
        start = time.monotonic()
        return verifier.score(TASK, f"```python\n{forgery.code}\n```", bare), time.monotonic() - start

    with ThreadPoolExecutor(2) as threads:
        return dict(zip([each.name for each in FORGERIES], threads.map(judge, FORGERIES), strict=True))


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda each: each.name)
def test_a_forgery_gets_no_reward(forgery: Any, verdicts: dict[str, tuple[Verdict, float]]) -> None:
    verdict, seconds = verdicts[forgery.name]
    assert verdict.kind.value in forgery.kinds, verdict
    assert verdict.reward == 0.0
    assert verdict.trust is Trust.OUTSIDE
    assert seconds < 20


def test_the_table_is_large_enough() -> None:
    assert len({each.name for each in FORGERIES}) == len(FORGERIES) >= 20


def test_the_honest_candidate_passes(bare: Context) -> None:
    honest = f"```python\ndef f(x):\n    return {_TABLE['SECRET'][0]} if x == 3 else {_TABLE['SECRET'][1]}\n```"
    assert verifier_of(TASK, bare).score(TASK, honest, bare).reward == 1.0


@pytest.mark.parametrize("first", ["unit_tests", "schema"])
def test_a_forged_part_refuses_the_whole(bare: Context, first: str) -> None:
    code = next(each.code for each in FORGERIES if each.name == "forged_pass_word")
    parts: list[dict[str, Any]] = [
        {"use": "unit_tests", "spec": SPEC, "weight": 0},
        {"use": "schema", "spec": {"schema": {}}},
    ]
    parts.sort(key=lambda part: part["use"] != first)
    spec = json.dumps({"parts": parts, "threshold": 0.5})
    whole = msgspec.structs.replace(TASK, verifier=VerifierSpec(use="composite", spec_json=spec))
    found = verifier_of(whole, bare).score(whole, f"```python\n{code}\n```\n```json\n1\n```", bare)
    assert (found.kind.value, found.reward) == ("refused", 0.0), found
    assert json.loads(found.evidence_json)["reason"] == "refused:unit_tests"
