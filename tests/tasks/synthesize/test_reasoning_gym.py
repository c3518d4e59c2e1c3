"""Tasks from reasoning-gym: different from each other, the same in every process, proven by the package's scorer."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.vocabulary import Stage
from tasks.synthesize.synthesizer.reasoning_gym import _HASH, REFUSED
from tasks.verify.workers.gym import MISBEHAVING

ONE_DIGIT = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
CHAIN = {"use": "reasoning_gym", "dataset": "chain_sum", "count": 12, "config": ONE_DIGIT}


@pytest.mark.parametrize(
    ("dataset", "config"),
    [
        ("chain_sum", ONE_DIGIT),
        ("basic_arithmetic", {**ONE_DIGIT, "allow_parentheses": False, "allow_negation": False}),
        ("products", {"max_digits": 2}),
    ],
)
def test_the_quickstart_data_sets_give_proven_different_tasks(
    run_entry: Callable[..., Any], dataset: str, config: dict[str, Any]
) -> None:
    ran = run_entry(Stage.SYNTHESIZE, {**CHAIN, "dataset": dataset, "config": config})
    assert ran.report.reasons == {"ok": 12}
    assert ran.report.n_seen >= 12
    tasks = ran.ctx.lake.tasks(ran.after.tasks)
    assert len({task.prompt for task in tasks}) == 12
    for task in tasks:
        assert task.kind == "arithmetic"
        assert task.verifier.use == "reasoning_gym"
        assert task.gold is not None and len(task.gold) <= 8
        assert task.prompt[0].content.endswith("\n\nAnswer with the result only.")


def test_a_larger_count_keeps_the_tasks_and_another_seed_changes_them(run_entry: Callable[..., Any]) -> None:
    few = run_entry(Stage.SYNTHESIZE, {**CHAIN, "count": 4})
    more = run_entry(Stage.SYNTHESIZE, {**CHAIN, "count": 8})
    other = run_entry(Stage.SYNTHESIZE, {**CHAIN, "count": 4, "seed": 1})
    assert more.after.tasks[:4] == few.after.tasks
    assert not set(other.after.tasks) & set(more.after.tasks)
    reseeded = run_entry(Stage.SYNTHESIZE, {**CHAIN, "count": 4}, seed=1)
    assert not set(reseeded.after.tasks) & set(more.after.tasks)


def test_a_small_space_gives_fewer_tasks_than_asked_for(run_entry: Callable[..., Any]) -> None:
    single = {"min_terms": 1, "max_terms": 1, "min_digits": 1, "max_digits": 1}
    ran = run_entry(Stage.SYNTHESIZE, {**CHAIN, "count": 40, "config": single})
    assert 5 <= ran.report.n_in <= 10
    assert ran.report.n_seen == 800


def test_an_answer_of_several_lines_is_asked_for_between_marks(run_entry: Callable[..., Any]) -> None:
    ran = run_entry(Stage.SYNTHESIZE, {"use": "reasoning_gym", "dataset": "mini_sudoku", "count": 1})
    (task,) = ran.ctx.lake.tasks(ran.after.tasks)
    assert task.gold is not None and task.gold.startswith("<answer>\n")
    assert task.prompt[0].content.endswith("Put the final answer between <answer> and </answer>.")


def test_entries_with_numpy_values_are_stored_as_json(run_entry: Callable[..., Any]) -> None:
    ran = run_entry(Stage.SYNTHESIZE, {"use": "reasoning_gym", "dataset": "knights_knaves", "count": 1})
    assert ran.report.reasons == {"ok": 1}


def test_data_sets_that_cannot_be_trusted_are_refused_with_the_reason(run_entry: Callable[..., Any]) -> None:
    assert REFUSED.keys() > MISBEHAVING
    assert len(MISBEHAVING) == 11
    for dataset, reason in REFUSED.items():
        with pytest.raises(UserError) as caught:
            run_entry(Stage.SYNTHESIZE, {**CHAIN, "dataset": dataset})
        assert reason in str(caught.value)


def test_unknown_names_list_the_known_ones(run_entry: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match=r"chain_summ(.|\n)*chain_sum, "):
        run_entry(Stage.SYNTHESIZE, {**CHAIN, "dataset": "chain_summ"})
    with pytest.raises(UserError, match=r"max_term(.|\n)*max_terms"):
        run_entry(Stage.SYNTHESIZE, {**CHAIN, "config": {"max_term": 2}})
    with pytest.raises(UserError, match="does not fit"):
        run_entry(Stage.SYNTHESIZE, {**CHAIN, "config": {"min_terms": 3, "max_terms": 2}})


def test_what_differs_between_processes_is_what_is_refused_for_it() -> None:
    unstable = [name for name, reason in REFUSED.items() if reason == _HASH]
    script = (
        "import json, reasoning_gym\n"
        f"for name in {['chain_sum', 'basic_arithmetic', 'products', *unstable]}:\n"
        "    source = reasoning_gym.create_dataset(name, seed=11, size=6)\n"
        "    print(name, json.dumps([source[k] for k in range(6)], default=str))\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    assert len(unstable) == 5
    assert [one == other for one, other in zip(*said, strict=True)] == [True] * 3 + [False] * 5
