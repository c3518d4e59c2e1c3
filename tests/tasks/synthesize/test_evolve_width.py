"""Two proven functions become one task that needs both, and it proves itself."""

import json
from collections.abc import Callable
from typing import Any

from schemas.vocabulary import Stage
from tasks.operator import WorkingSet

NAMES = ["double", "square", "first_item", "last_item", "add", "is_palindrome"]


def test_pairs_with_the_same_parameters_and_tests_become_one_task(run_entry: Callable[..., Any]) -> None:
    seeds = run_entry(Stage.SYNTHESIZE, {"use": "programs", "names": NAMES}).after
    gym = {"use": "reasoning_gym", "dataset": "chain_sum", "count": 1}
    mixed = WorkingSet(tasks=(*seeds.tasks, *run_entry(Stage.SYNTHESIZE, gym).after.tasks))
    ran = run_entry(Stage.SYNTHESIZE, {"use": "evolve_width"}, mixed)
    assert (ran.report.n_seen, ran.report.reasons) == (7, {"ok": 2})
    made = ran.ctx.lake.tasks([ref for ref in ran.after.tasks if ref not in mixed.tasks])
    by_name = {task.name: task for task in made}
    assert sorted(by_name) == ["double_and_square", "first_item_and_last_item"]
    task = by_name["double_and_square"]
    assert set(task.parents) <= set(seeds.tasks)
    assert task.difficulty == 0.3
    assert task.prompt[0].content == (
        "Return a list of two results for the same arguments. First result: Return the number n times 2. "
        "Second result: Return the square of the number n.\n\nWrite this Python function:\n\n"
        "```python\ndef double_and_square(n: int) -> list:\n```"
    )
    tests = json.loads(task.verifier.spec_json)["tests"]
    assert sorted(tests, key=lambda test: test["args"]) == [
        {"args": [-4], "expected": [-8, 16]},
        {"args": [0], "expected": [0, 0]},
        {"args": [3], "expected": [6, 9]},
    ]


def test_a_limit_and_too_few_shared_tests_leave_pairs_out(run_entry: Callable[..., Any]) -> None:
    seeds = run_entry(Stage.SYNTHESIZE, {"use": "programs", "names": NAMES}).after
    assert run_entry(Stage.SYNTHESIZE, {"use": "evolve_width", "limit": 1}, seeds).report.n_in == 1
    assert run_entry(Stage.SYNTHESIZE, {"use": "evolve_width", "min_tests": 4}, seeds).report.n_in == 1
