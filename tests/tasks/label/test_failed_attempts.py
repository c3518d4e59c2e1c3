"""What `productive_segments` and `beneficial_prefix` find worth learning in attempts that failed."""

from collections.abc import Callable
from typing import Any

from schemas.rows import Verdict
from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory, text_part
from schemas.vocabulary import Source, Stage, VerdictKind
from tasks.label.labeler.productive_segments import ProductiveSegments
from tasks.operator import WorkingSet


def said(source: Source, text: str) -> Step:
    return Step(source=source, content=text_part(text))


def call(number: int, query: str, output: str, error: bool = False) -> Step:
    arguments = f'{{"q":"{query}"}}'
    made = ToolCall(id=f"s{number}c0", name="search", arguments=arguments, arguments_json=arguments)
    result = ToolResult(call_id=made.id, content=text_part(output), is_error=error)
    return Step(source=Source.AGENT, tool_calls=(made,), results=(result,))


def attempt(name: str, *steps: Step, task: str = "task") -> Trajectory:
    return Trajectory(id=name, task_id=task, steps=(said(Source.USER, "find it"), *steps))


def verdict(name: str, kind: VerdictKind) -> Verdict:
    return Verdict(id=f"v-{name}", trajectory_id=name, verifier="exact", kind=kind)


def weights(ran: Any, name: str) -> dict[int, float | None]:
    return {label.step: label.weight for label in ran.ctx.lake.labels([name])[name]}


WANDERING = attempt(
    "wandering",
    call(1, "a", "first"),
    call(2, "b", "second"),
    call(3, "b", "second"),  # told nothing new
    call(4, "c", "refused", error=True),
    call(5, "d", "third"),
    call(6, "e", "fourth"),
    call(7, "f", "fifth"),
    said(Source.AGENT, "It is nowhere."),
)


def test_segments_are_runs_of_calls_that_worked_and_told_something_new(
    store: Callable[..., None], run_entry: Callable[..., Any]
) -> None:
    assert ProductiveSegments().segments(WANDERING) == [[1, 2], [5, 6, 7]]
    assert ProductiveSegments(min_steps=3).segments(WANDERING) == [[5, 6, 7]]
    solved = attempt("solved", call(1, "a", "first"), call(2, "b", "second"), said(Source.AGENT, "Here."))
    short = attempt("short", call(1, "a", "first"), said(Source.AGENT, "No."))
    store(
        trajectories=[WANDERING, solved, short],
        verdicts=[
            verdict("wandering", VerdictKind.FAIL),
            verdict("solved", VerdictKind.PASS),
            verdict("short", VerdictKind.FAIL),
        ],
    )
    inputs = WorkingSet(trajectories=("wandering", "solved", "short"))
    ran = run_entry(Stage.LABEL, {"use": "productive_segments"}, inputs)
    assert (ran.report.n_seen, ran.report.n_in, ran.report.reasons) == (3, 1, {"labelled": 1})
    assert weights(ran, "wandering") == {1: 1.0, 2: 1.0, 3: 0.0, 4: 0.0, 5: 1.0, 6: 1.0, 7: 1.0, 8: 0.0}


def test_the_prefix_shared_with_a_solved_sample_is_beneficial(
    store: Callable[..., None], run_entry: Callable[..., Any]
) -> None:
    failed = attempt("failed", call(1, "a", "first"), call(2, "b", "second"), said(Source.AGENT, "No."))
    solved = attempt("solved", call(1, "a", "first"), call(2, "z", "it"), said(Source.AGENT, "It."))
    astray = attempt("astray", call(1, "x", "else"), said(Source.AGENT, "No."))
    alone = attempt("alone", call(1, "a", "first"), said(Source.AGENT, "No."), task="other")
    given = (failed, solved, astray, alone)
    store(
        trajectories=list(given),
        verdicts=[verdict(t.id, VerdictKind.PASS if t is solved else VerdictKind.FAIL) for t in given],
    )
    ran = run_entry(Stage.LABEL, {"use": "beneficial_prefix"}, WorkingSet(trajectories=tuple(t.id for t in given)))
    assert ran.report.reasons == {"labelled": 1, "passed": 1, "no_shared_prefix": 2}
    assert weights(ran, "failed") == {1: 1.0, 2: 0.0, 3: 0.0}
    assert weights(ran, "astray") == weights(ran, "alone") == weights(ran, "solved") == {}


def test_a_later_success_opens_the_group_again(store: Callable[..., None], run_entry: Callable[..., Any]) -> None:
    failed = attempt("failed", call(1, "a", "first"), said(Source.AGENT, "No."))
    store(trajectories=[failed], verdicts=[verdict("failed", VerdictKind.FAIL)])
    first = run_entry(Stage.LABEL, {"use": "beneficial_prefix"}, WorkingSet(trajectories=("failed",)))
    assert first.report.reasons == {"no_shared_prefix": 1}
    solved = attempt("solved", call(1, "a", "first"), said(Source.AGENT, "It."))
    store(trajectories=[solved], verdicts=[verdict("solved", VerdictKind.PASS)])
    second = run_entry(Stage.LABEL, {"use": "beneficial_prefix"}, WorkingSet(trajectories=("failed", "solved")))
    assert second.report.reasons == {"labelled": 1, "passed": 1}
    assert weights(second, "failed") == {1: 1.0, 2: 0.0}
