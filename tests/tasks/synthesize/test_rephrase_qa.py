"""Rewrites by a teacher behind a real HTTP endpoint, judged, proven again, accounted for and counted."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.recipe import Budget
from schemas.vocabulary import Stage
from tasks.operator import WorkingSet
from tasks.synthesize.rewrite import split_prompt
from tasks.synthesize.synthesizer.rephrase_qa import accept, task_names

REPHRASE = {"use": "rephrase_qa"}
NAMES = ["add", "is_even", "square", "text_length", "celsius_to_fahrenheit"]
ANSWERS = {
    "Return the sum of two whole numbers a and b.": "Here is the rewritten task:\n\nAdd two whole numbers a and b "
    "together and hand back the total.",
    "Return True if the number n is even, otherwise False.": "Return True if n is an even number, otherwise False.",
    "Return the square of the number n.": "Take n to the power of 2.",
    "Return the number of characters in the string text.": "Read the text to your neighbours and go home.",
}


def answer(text: str) -> str | int:
    """What the endpoint says: a rewrite, or that it will not."""
    if "Celsius" in text:
        return 400
    return next(rewrite for statement, rewrite in ANSWERS.items() if statement in text)


@pytest.fixture
def peer(endpoint: Any) -> Any:
    endpoint.answer = answer
    return endpoint


@pytest.fixture
def seeds(run_entry: Callable[..., Any]) -> WorkingSet:
    """Five proven program tasks."""
    ran = run_entry(Stage.SYNTHESIZE, {"use": "programs", "names": NAMES})
    assert ran.report.reasons == {"ok": 5}
    return ran.after


def test_faithful_rewrites_become_tasks_and_the_others_are_counted(
    run_entry: Callable[..., Any], peer: Any, seeds: WorkingSet
) -> None:
    ran = run_entry(Stage.SYNTHESIZE, REPHRASE, seeds, teacher=peer.teacher())
    assert ran.report.reasons == {"ok": 1, "too_similar": 1, "added_number": 1, "other_meaning": 1, "rejected": 1}
    assert (ran.report.n_seen, ran.report.n_kept, ran.report.n_dropped, ran.report.n_dead) == (5, 1, 3, 1)
    lake = ran.ctx.lake
    (new,) = lake.tasks([ref for ref in ran.after.tasks if ref not in seeds.tasks])
    (old,) = lake.tasks(new.parents)
    assert old.name == new.name == "add"
    statement, rest = split_prompt(old.prompt[0].content)
    assert statement in ANSWERS
    assert new.prompt[0].content == f"Add two whole numbers a and b together and hand back the total.{rest}"
    assert (new.verifier, new.gold) == (old.verifier, old.gold)
    rows = lake.sql("select status, count(*) as n from requests group by status order by status").to_pylist()
    assert rows == [{"status": "ok", "n": 4}, {"status": "rejected", "n": 1}]
    (letter,) = lake.sql("select reason, retry from dead_letters").to_pylist()
    assert letter == {"reason": "rejected", "retry": True}
    asked = len(peer.asked)
    again = run_entry(Stage.SYNTHESIZE, REPHRASE, seeds, teacher=peer.teacher())
    assert again.after == ran.after
    assert len(peer.asked) == asked + 1, "only the failed call is made again"


def test_what_the_budget_refuses_stays_pending_and_is_done_by_the_next_run(
    run_entry: Callable[..., Any], peer: Any, seeds: WorkingSet
) -> None:
    entry = {**REPHRASE, "limit": 1, "rewrites": 3, "min_meaning": 0}
    stopped = run_entry(Stage.SYNTHESIZE, entry, seeds, teacher=peer.teacher(), budget=Budget(calls=0))
    assert stopped.report.reasons == {"pending:budget": 3}
    assert peer.asked == []
    done = run_entry(Stage.SYNTHESIZE, entry, seeds, teacher=peer.teacher())
    assert done.report.n_pending == 0
    assert len(peer.asked) == 3
    assert len({body["seed"] for body in peer.asked}) == 3


def test_the_request_holds_the_statement_and_nothing_of_the_hidden_tests(
    run_entry: Callable[..., Any], peer: Any, seeds: WorkingSet
) -> None:
    run_entry(Stage.SYNTHESIZE, {**REPHRASE, "max_tokens": 33, "min_meaning": 0}, seeds, teacher=peer.teacher())
    for body in peer.asked:
        assert body["max_tokens"] == 33
        assert [message["role"] for message in body["messages"]] == ["user", "assistant"] * 3 + ["user"]
        assert "def " not in json.dumps(body)
        assert "expected" not in json.dumps(body)


def test_kinds_choose_the_tasks(run_entry: Callable[..., Any], peer: Any, seeds: WorkingSet) -> None:
    ran = run_entry(Stage.SYNTHESIZE, {**REPHRASE, "kinds": ["arithmetic"]}, seeds, teacher=peer.teacher())
    assert (ran.report.n_seen, ran.report.n_in) == (5, 0)


def test_another_teacher_is_another_operator_and_none_is_refused(
    run_entry: Callable[..., Any], peer: Any, seeds: WorkingSet
) -> None:
    entry = {**REPHRASE, "limit": 1, "min_meaning": 0}
    first = run_entry(Stage.SYNTHESIZE, entry, seeds, teacher=peer.teacher())
    other = run_entry(Stage.SYNTHESIZE, {**entry, "teacher": peer.teacher(model="m2")}, seeds)
    assert len(peer.asked) == 2
    assert first.after != other.after
    with pytest.raises(UserError, match="no teacher"):
        run_entry(Stage.SYNTHESIZE, REPHRASE, seeds)


def test_the_names_of_a_task_are_its_functions_and_parameters(run_entry: Callable[..., Any], seeds: WorkingSet) -> None:
    ran = run_entry(Stage.SYNTHESIZE, {"use": "programs", "names": ["two_sum"]})
    (task,) = ran.ctx.lake.tasks(ran.after.tasks)
    assert task_names(task) == ["two_sum", "numbers", "target"]
    made = accept(task, "Find where in numbers the pair lies that adds up to target.")
    assert isinstance(made, tuple)
    assert made[0] == "lost_number"
