"""Critical steps as a teacher behind a real endpoint names them."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.trajectory import Step, Trajectory, text_part
from schemas.vocabulary import Source, Stage
from tasks.label.labeler.critical_steps import CriticalSteps
from tasks.operator import WorkingSet

CRITICAL = {"use": "critical_steps", "share": 0.5}


def walk(name: str, turns: int) -> Trajectory:
    steps = [Step(source=Source.USER, content=text_part(f"go ({name})"))]
    for turn in range(turns):
        steps.append(Step(source=Source.AGENT, content=text_part(f"turn {turn + 1} " + "x" * 500)))
        steps.append(Step(source=Source.ENVIRONMENT, content=text_part("seen")))
    return Trajectory(id=name, steps=tuple(steps))


def test_weights_follow_the_teachers_choice(
    store: Callable[..., None], run_entry: Callable[..., Any], endpoint: Any
) -> None:
    given = [walk("named", 5), walk("vague", 4), walk("short", 3), walk("refused", 4)]
    store(trajectories=given)
    endpoint.answer = lambda text: (
        400 if "(refused)" in text else "All of them, surely." if "(vague)" in text else "Steps [4, 4, 9, 2, 1]."
    )
    inputs = WorkingSet(trajectories=tuple(t.id for t in given))
    ran = run_entry(Stage.LABEL, CRITICAL, inputs, teacher=endpoint.teacher())
    assert (ran.report.n_seen, ran.report.n_in) == (4, 3)
    assert ran.report.reasons == {"labelled": 1, "unparsable": 1, "rejected": 1}
    labels = ran.ctx.lake.labels(["named"])["named"]
    # At most half of five steps: the first two that exist, 4 and 2.
    assert {label.step: label.weight for label in labels} == {1: 0.0, 3: 1.0, 5: 0.0, 7: 1.0, 9: 0.0}
    assert {label.reason for label in labels} == {"critical", "routine"}
    assert ran.ctx.lake.sql("select count(*) as n from requests").to_pylist() == [{"n": 3}]


def test_the_question_numbers_the_agents_steps_and_cuts_long_ones() -> None:
    asked = CriticalSteps(share=0.3, step_chars=20).question(walk("t", 5))
    assert "user: go (t)\n[1] agent: turn 1 xxxxxxxxxxxxx\nenvironment: seen\n[2] agent:" in asked
    assert "at most 1 step numbers" in asked


@pytest.mark.parametrize(
    ("reply", "steps"),
    [("[2]", {3}), ("first [1], then [3, 2]", {5, 3}), ("[]", set()), ("[,]", set()), ("[0, 99]", set()), ("", set())],
)
def test_the_last_list_in_the_reply_counts(reply: str, steps: set[int]) -> None:
    assert CriticalSteps(share=0.5).chosen(walk("t", 4), reply) == steps


def test_options_are_checked(run_entry: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="share"):
        run_entry(Stage.LABEL, {**CRITICAL, "share": 0.0})
    with pytest.raises(UserError, match="no teacher"):
        run_entry(Stage.LABEL, CRITICAL)
