"""Which observations give way to the placeholder, and which turns keep their weight."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory, text_of, text_part
from schemas.vocabulary import Source, Stage
from tasks.operator import WorkingSet

MASK = {"use": "mask_stale_observations", "keep": 2, "min_chars": 10}


def looked(number: int, output: str) -> Step:
    made = ToolCall(id=f"s{number}c0", name="look", arguments="{}", arguments_json="{}")
    result = ToolResult(call_id=made.id, content=text_part(output), is_error=False)
    return Step(source=Source.AGENT, content=text_part("I look."), tool_calls=(made,), results=(result,))


def walk(name: str, *outputs: str) -> Trajectory:
    steps = [Step(source=Source.USER, content=text_part("go"))]
    steps += [looked(number, output) for number, output in enumerate(outputs, 1)]
    steps += [Step(source=Source.ENVIRONMENT, content=text_part("a bell rings outside"))]
    return Trajectory(id=name, steps=(*steps, Step(source=Source.AGENT, content=text_part("done"))))


def test_all_but_the_newest_long_observations_are_left_out(
    store: Callable[..., None], run_entry: Callable[..., Any]
) -> None:
    long = walk("long", "first output", "short", "third output", "fourth output")
    store(trajectories=[long, walk("brief", "x" * 20)])
    inputs = WorkingSet(trajectories=("long", "brief"))
    ran = run_entry(Stage.REFINE, MASK, inputs)
    assert (ran.report.n_seen, ran.report.n_in, ran.report.reasons) == (2, 1, {"masked": 1})
    new, same = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert same.id == "brief"
    note = "[old output left out]"
    shown = [text_of(step.results[0].content) for step in new.steps if step.results]
    assert shown == [note, "short", note, "fourth output"]
    assert [step.results[0].call_id for step in new.steps if step.results] == ["s1c0", "s2c0", "s3c0", "s4c0"]
    assert text_of(new.steps[5].content) == "a bell rings outside"
    assert {step.weight for step in new.steps} == {None}
    last = run_entry(Stage.REFINE, {**MASK, "train": "last"}, inputs)
    (strict, _) = last.ctx.lake.trajectories(last.after.trajectories)
    assert [step.weight for step in strict.steps if step.source is Source.AGENT] == [0.0] * 4 + [None]


def test_keep_must_leave_something(run_entry: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="keep"):
        run_entry(Stage.REFINE, {**MASK, "keep": 0})
