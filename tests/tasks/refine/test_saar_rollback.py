"""The rollback on trajectories with executable calls, replayed in the real sandbox."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory, text_of, text_part
from schemas.vocabulary import Source, Stage
from tasks.calls import call_outcomes
from tasks.operator import WorkingSet
from tasks.refine.likeness import likeness
from tasks.refine.refiner.saar_rollback import SaarRollback
from tasks.refine.replay import same_output

SAAR = {"use": "saar_rollback"}
FAILING = "values = [3, 4]\nprint(total(values))"
FIXED = "values = [3, 4]\nprint(sum(values))"
OTHER_WAY = "first, second = [3, 4]\nprint(first + second)"
NAME_ERROR = "Traceback (most recent call last):\nNameError: name 'total' is not defined"


def said(source: Source, text: str) -> Step:
    return Step(source=source, content=text_part(text))


def tool(step: int, code: str, output: str, error: bool | None, reasoning: str = "") -> Step:
    """An agent step whose one tool call runs `code`."""
    call = ToolCall(
        id=f"s{step}c0", name="python", arguments=json.dumps({"code": code}), arguments_json=json.dumps({"code": code})
    )
    result = ToolResult(call_id=call.id, content=text_part(output), is_error=error)
    return Step(source=Source.AGENT, reasoning=reasoning, tool_calls=(call,), results=(result,))


def block(code: str, output: str, words: str) -> tuple[Step, Step]:
    """An agent step with a fenced block and the environment step that answers it."""
    return said(Source.AGENT, f"{words}\n\n```python\n{code}\n```"), said(Source.ENVIRONMENT, output)


def run(name: str, *steps: Step) -> Trajectory:
    return Trajectory(id=name, steps=(said(Source.USER, "Add 3 and 4."), *steps))


@pytest.fixture
def refined(store: Callable[..., None], run_entry: Callable[..., Any]) -> Callable[..., Any]:
    """Runs the refiner over trajectories; gives the report, the trajectories that flow on, and the context."""

    def go(*given: Trajectory, **options: Any) -> Any:
        store(trajectories=list(given))
        ran = run_entry(Stage.REFINE, {**SAAR, **options}, WorkingSet(trajectories=tuple(one.id for one in given)))
        return ran.report, ran.ctx.lake.trajectories(ran.after.trajectories), ran.ctx

    return go


def test_an_alike_correction_swaps_the_action_and_keeps_the_reasoning(refined: Callable[..., Any]) -> None:
    old = run(
        "t",
        tool(1, FAILING, NAME_ERROR, True, "I add them up."),
        tool(2, FIXED, "7\n", False, "total does not exist; sum does."),
        said(Source.AGENT, "The answer is 7."),
    )
    report, (new,), ctx = refined(old)
    assert report.reasons == {"rolled_back": 1}
    assert (new.parents, new.branch_point) == (("t",), 1)
    assert new.id != "t"
    assert [step.source for step in new.steps] == [Source.USER, Source.AGENT, Source.AGENT]
    assert new.steps[1].reasoning == "I add them up."
    (call,) = call_outcomes(new)
    assert (call.code, call.output, call.failed, call.call_id) == (FIXED, "7\n", False, "s1c0")
    assert ctx.lake.trajectories(["t"]) == [old]


def test_an_unlike_correction_brings_its_reasoning(refined: Callable[..., Any]) -> None:
    assert 0.4 <= likeness(FAILING, OTHER_WAY) < 0.7
    old = run(
        "t",
        tool(1, FAILING, NAME_ERROR, True, "I add them up."),
        tool(2, OTHER_WAY, "7\n", False, "I name both and add."),
    )
    _, (new,), ctx = refined(old)
    assert new.steps[1].reasoning == "I name both and add."
    (row,) = ctx.lake.sql("select evidence_json from decisions").to_pylist()
    (swap,) = json.loads(row["evidence_json"])["swaps"]
    assert (swap["failed_step"], swap["corrected_by"], swap["swapped"]) == (1, 2, "action and reasoning")


def test_fenced_blocks_are_swapped_with_their_observations(refined: Callable[..., Any]) -> None:
    old = run(
        "t",
        *block(FAILING, NAME_ERROR, "I add them up."),
        *block(FAILING.replace("total", "summe"), NAME_ERROR.replace("total", "summe"), "Another name."),
        *block(FIXED, "7", "sum it is."),
        said(Source.AGENT, "7"),
    )
    report, (new,), _ = refined(old)
    assert report.reasons == {"rolled_back": 1}
    assert [step.source for step in new.steps] == [Source.USER, Source.AGENT, Source.ENVIRONMENT, Source.AGENT]
    assert text_of(new.steps[1].content) == f"I add them up.\n\n```python\n{FIXED}\n```"
    assert text_of(new.steps[2].content) == "7"


def test_what_is_not_corrected_is_not_planned(refined: Callable[..., Any]) -> None:
    fine = run("fine", tool(1, FIXED, "7\n", False))
    stuck = run("stuck", tool(1, FAILING, NAME_ERROR, True), tool(2, FAILING, NAME_ERROR, True))
    unrelated = run("unrelated", tool(1, FAILING, NAME_ERROR, True), tool(2, "print(1)", "1\n", False))
    asked = run("asked", tool(1, FAILING, NAME_ERROR, True), said(Source.USER, "use sum"), tool(3, FIXED, "7\n", False))
    late = run("late", *(tool(k, FAILING, NAME_ERROR, True) for k in range(1, 6)), tool(6, FIXED, "7\n", False))
    search = run(
        "search",
        *(
            Step(
                source=Source.AGENT,
                tool_calls=(ToolCall(id=f"s{k}c0", name="search", arguments_json='{"q":"x"}'),),
                results=(ToolResult(call_id=f"s{k}c0", content=text_part("r"), is_error=k == 1),),
            )
            for k in (1, 2)
        ),
    )
    given = (fine, stuck, unrelated, asked, late, search)
    report, after, _ = refined(*given, attempts=2)
    # In `late` the last failures before the success are within reach of it; the first ones stay.
    assert (report.n_seen, report.n_in, report.reasons) == (6, 1, {"rolled_back": 1})
    assert [one.id for one in after if one.id in {t.id for t in given}] == [t.id for t in given if t is not late]
    shortened = next(one for one in after if one.parents)
    assert [call.failed for call in call_outcomes(shortened)] == [True, True, True, False]


def test_a_replay_that_does_not_hold_gives_the_rollback_up(refined: Callable[..., Any]) -> None:
    def pair(name: str, code: str, output: str) -> Trajectory:
        return run(name, tool(1, f"{code}\nboom()", NAME_ERROR, True), tool(2, code, output, False))

    fails = pair("fails", "import site_only_here\nprint('ready')", "ready\n")
    differs = pair("differs", "for k in range(3):\n    print('line', k)", "line 0\nline 1\n")
    passes = run(
        "passes",
        tool(1, "print('fine after all')", "Error: quota", True),
        *(tool(k, f"{FAILING}\nboom()", NAME_ERROR, True) for k in (2,)),
        tool(3, FIXED, "7\n", False),
    )
    report, after, ctx = refined(fails, differs, passes)
    assert report.reasons == {
        "unchanged:replay_failed": 1,
        "unchanged:replay_differs": 1,
        "unchanged:replay_passed": 1,
    }
    assert after == [fails, differs, passes]
    assert ctx.lake.sql("select count(*) as n from trajectories").to_pylist() == [{"n": 3}]


def test_notebook_sessions_share_state_and_show_the_last_value(refined: Callable[..., Any]) -> None:
    steps = (
        tool(1, "values = [3, 4]\nvalues", "Out[1]: [3, 4]", None),
        tool(2, "total = summe(values)\ntotal", NAME_ERROR, None),
        tool(3, "total = sum(values)\ntotal", "Out[3]: 7\nYou have 2 steps left.", None),
    )
    report, (new,), _ = refined(run("t", *steps), session="notebook")
    assert report.reasons == {"rolled_back": 1}
    assert [call.code for call in call_outcomes(new)] == ["values = [3, 4]\nvalues", "total = sum(values)\ntotal"]
    report, _, _ = refined(run("t", *steps), session="script")
    assert report.reasons == {"unchanged:replay_differs": 1}


def test_a_second_run_adds_nothing(store: Callable[..., None], run_entry: Callable[..., Any]) -> None:
    store(trajectories=[run("t", tool(1, FAILING, NAME_ERROR, True), tool(2, FIXED, "7\n", False))])
    first = run_entry(Stage.REFINE, SAAR, WorkingSet(trajectories=("t",)))
    second = run_entry(Stage.REFINE, SAAR, WorkingSet(trajectories=("t",)))
    assert first.after == second.after
    assert first.ctx.lake.sql("select count(*) as n from trajectories").to_pylist() == [{"n": 2}]


def test_thresholds_out_of_order_are_refused(run_entry: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="related <= alike"):
        run_entry(Stage.REFINE, {**SAAR, "related": 0.9, "alike": 0.5})


def test_calls_keep_their_results_under_new_ids() -> None:
    old = run("t", tool(1, FAILING, NAME_ERROR, True), tool(2, FIXED, "7\n", False), tool(3, "print(1)", "1\n", False))
    refiner = SaarRollback()
    new = refiner.rolled_back(old, refiner.swaps(old))
    assert [call.id for step in new.steps for call in step.tool_calls] == ["s1c0", "s2c0"]
    assert [result.call_id for step in new.steps for result in step.results] == ["s1c0", "s2c0"]


def test_likeness_ignores_layout_and_comments() -> None:
    assert likeness("x = 1  # one\nprint( x )", "x=1\nprint(x)") == 1.0
    assert likeness("print(1", "print(1  ") == 1.0
    assert likeness(FAILING, FIXED) > 0.7
    assert likeness(FAILING, "import os\nos.listdir('/tmp')") < 0.4


def test_outputs_are_compared_by_whole_words() -> None:
    assert same_output("Out[3]: 7\nYou have 2 steps left.", "7\n")
    assert same_output("(no output)", "")
    assert not same_output("17", "7")
    assert not same_output("a b", "a  c")
    assert not same_output("Out[1]: 7", "")
    long = "".join(f"line {k}\n" for k in range(200))
    assert same_output(f"The program printed:\n{long[:800]} …\n\nReply with the final answer only.", long)
    assert not same_output(f"The program printed:\n{long[:800]} …", long.replace("line 50", "line 51"))
