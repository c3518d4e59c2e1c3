"""Which calls `error_mask` masks, step by step and call by call, and what it leaves alone."""

from collections.abc import Callable
from typing import Any

from schemas.trajectory import Part, Step, ToolCall, ToolResult, Trajectory, text_part
from schemas.vocabulary import Source, Stage
from tasks.calls import call_outcomes, looks_failed
from tasks.operator import WorkingSet

TRACE = 'Traceback (most recent call last):\n  File "<string>", line 1\nZeroDivisionError: division by zero'


def tool_step(number: int, *results: tuple[str, bool | None]) -> Step:
    """An agent step with one call of `search` per result."""
    calls = tuple(
        ToolCall(id=f"s{number}c{k}", name="search", arguments='{"q":1}', arguments_json='{"q":1}')
        for k in range(len(results))
    )
    return Step(
        source=Source.AGENT,
        tool_calls=calls,
        results=tuple(
            ToolResult(call_id=call.id, content=text_part(text), is_error=error)
            for call, (text, error) in zip(calls, results, strict=True)
        ),
    )


def said(source: Source, text: str) -> Step:
    return Step(source=source, content=text_part(text))


def test_masks_failed_calls_and_plans_only_trajectories_that_have_some(
    store: Callable[..., None], run_entry: Callable[..., Any]
) -> None:
    user = said(Source.USER, "find it")
    clean = Trajectory(id="clean", steps=(user, tool_step(1, ("fine", False)), said(Source.AGENT, "done")))
    whole = Trajectory(id="whole", steps=(user, tool_step(1, ("bad", True)), tool_step(2, ("fine", False))))
    part = Trajectory(id="part", steps=(user, tool_step(1, ("fine", False), ("bad", True), ("Error: no", None))))
    store(trajectories=[clean, whole, part])
    ran = run_entry(Stage.LABEL, {"use": "error_mask"}, WorkingSet(trajectories=("clean", "whole", "part")))
    assert (ran.report.n_seen, ran.report.n_in, ran.report.n_kept) == (3, 2, 2)
    assert ran.after.trajectories == ("clean", "whole", "part")
    labels = ran.ctx.lake.labels(["clean", "whole", "part"])
    assert labels["clean"] == []
    (mask,) = labels["whole"]
    assert (mask.step, mask.call_id, mask.weight, mask.reason) == (1, None, 0.0, "call_failed")
    found = {(one.step, one.call_id, one.evidence_json) for one in labels["part"]}
    assert found == {(1, "s1c1", '{"inferred":false}'), (1, "s1c2", '{"inferred":true}')}


def test_without_inference_only_what_the_source_calls_an_error_counts(
    store: Callable[..., None], run_entry: Callable[..., Any]
) -> None:
    guessed = Trajectory(id="guessed", steps=(said(Source.USER, "go"), tool_step(1, (TRACE, None))))
    store(trajectories=[guessed])
    inputs = WorkingSet(trajectories=("guessed",))
    assert run_entry(Stage.LABEL, {"use": "error_mask", "infer": False}, inputs).report.n_in == 0
    assert run_entry(Stage.LABEL, {"use": "error_mask"}, inputs).report.n_kept == 1


def test_a_second_run_adds_no_label(store: Callable[..., None], run_entry: Callable[..., Any]) -> None:
    store(trajectories=[Trajectory(id="t", steps=(said(Source.USER, "go"), tool_step(1, ("bad", True))))])
    inputs = WorkingSet(trajectories=("t",))
    first = run_entry(Stage.LABEL, {"use": "error_mask"}, inputs)
    second = run_entry(Stage.LABEL, {"use": "error_mask"}, inputs)
    assert first.report.reasons == second.report.reasons == {"labelled": 1}
    assert first.ctx.lake.sql("select count(*) as n from step_labels").to_pylist() == [{"n": 1}]


def test_a_fenced_block_fails_through_the_environment_step_after_it() -> None:
    block = said(Source.AGENT, "I divide.\n\n```python\nprint(1 / 0)\n```\n")
    run = Trajectory(
        id="t",
        steps=(
            said(Source.USER, "go"),
            block,
            Step(source=Source.ENVIRONMENT, results=(ToolResult(content=text_part("boom"), is_error=True),)),
            said(Source.AGENT, "Only the last block was run.\n```python\n1\n```\n```python\n2\n```"),
            said(Source.ENVIRONMENT, "The program printed:\n(nothing)\n\nReply with the final answer only."),
            said(Source.AGENT, "Never run.\n```python\n3\n```"),
            block,
            said(Source.ENVIRONMENT, "The program ended with an error:\nit was stopped: timeout"),
            block,
        ),
    )
    calls = call_outcomes(run)
    assert [(c.step, c.call_id, c.code, c.failed, c.result_step) for c in calls] == [
        (1, None, "print(1 / 0)\n", True, 2),
        (3, None, "2\n", False, 4),
        (6, None, "print(1 / 0)\n", True, 7),
    ]


def test_what_looks_like_an_error() -> None:
    for text in (
        TRACE,
        "partial output\n" + TRACE,
        "NameError: name 'x' is not defined",
        "Error: file not found",
        "command failed with exit code 2",
        '{"error": "no such user"}',
        '{"status": "error", "detail": 1}',
        "bash: frobnicate: command not found",
        "-" * 75 + "\nOperationalError                          Traceback (most recent call last)\nCell In[1]",
    ):
        assert looks_failed(text), text
    for text in (
        "",
        "42",
        "There was no error in the log.",
        "finished with exit code 0",
        '{"error": null, "value": 3}',
        '{"success": true}',
        "The ValueError class is documented below.\nIt is raised often.",
        "{not json",
    ):
        assert not looks_failed(text), text


def test_a_result_in_the_following_environment_step_belongs_to_the_call() -> None:
    call = ToolCall(id="s0c0", name="python", arguments="1/0", arguments_json='{"code":"1/0"}')
    for after in (
        Step(source=Source.ENVIRONMENT, content=(Part(text=TRACE),)),
        Step(source=Source.ENVIRONMENT, results=(ToolResult(content=text_part(TRACE)),)),
        Step(source=Source.ENVIRONMENT, results=(ToolResult(call_id="s0c0", content=text_part(TRACE)),)),
    ):
        found = call_outcomes(Trajectory(id="t", steps=(Step(source=Source.AGENT, tool_calls=(call,)), after)))
        assert [(c.code, c.failed, c.inferred, c.result_step) for c in found] == [("1/0", True, True, 1)]
    alone = call_outcomes(Trajectory(id="t", steps=(Step(source=Source.AGENT, tool_calls=(call,)),)))
    assert alone[0].failed is None
