"""Summaries by a teacher behind a real endpoint take the place of early turns, if they keep what is needed."""

from collections.abc import Callable
from typing import Any

from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory, text_of, text_part
from schemas.vocabulary import Source, Stage
from tasks.operator import WorkingSet
from tasks.refine.refiner.fold import Fold, facts

FOLD = {"use": "fold", "keep": 2}


def read(number: int, path: str, output: str) -> Step:
    arguments = f'{{"path":"{path}"}}'
    made = ToolCall(id=f"s{number}c0", name="read", arguments=arguments, arguments_json=arguments)
    return Step(
        source=Source.AGENT,
        tool_calls=(made,),
        results=(ToolResult(call_id=made.id, content=text_part(output), is_error=False),),
    )


def work(name: str) -> Trajectory:
    return Trajectory(
        id=name,
        steps=(
            Step(source=Source.USER, content=text_part(f"Find the port ({name}).")),
            read(1, "etc/main.conf", "the settings are in etc/net.conf " + "and more " * 20),
            read(2, "etc/other.conf", "nothing of interest, 4711 lines of it"),
            read(3, "etc/net.conf", "port = 8443"),
            Step(source=Source.AGENT, content=text_part("The port is 8443.")),
        ),
    )


def test_a_summary_that_keeps_the_facts_is_taken(
    store: Callable[..., None], run_entry: Callable[..., Any], endpoint: Any
) -> None:
    given = [work("kept"), work("lossy"), work("wordy"), work("refused")]
    store(trajectories=[*given, Trajectory(id="brief", steps=given[0].steps[:3])])
    replies = iter(["Main settings point to etc/net.conf.", "Read two files.", "word " * 100])
    endpoint.answer = lambda _: next(replies, 400)
    inputs = WorkingSet(trajectories=(*(t.id for t in given), "brief"))
    ran = run_entry(Stage.REFINE, FOLD, inputs, teacher=endpoint.teacher(parallel=1))
    assert (ran.report.n_seen, ran.report.n_in) == (5, 4)
    assert ran.report.reasons == {"folded": 1, "unchanged:lost_fact": 1, "unchanged:no_shorter": 1, "rejected": 1}
    (new,) = [t for t in ran.ctx.lake.trajectories(ran.after.trajectories) if t.parents]
    assert [step.source.value for step in new.steps] == ["user", "environment", "agent", "agent"]
    assert text_of(new.steps[1].content) == "Summary of the work so far:\nMain settings point to etc/net.conf."
    assert new.steps[2].tool_calls[0].id == new.steps[2].results[0].call_id == "s2c0"
    assert new.branch_point == 1
    assert ran.ctx.lake.sql("select count(*) as n from requests").to_pylist() == [{"n": 4}]


def test_what_a_person_says_is_never_folded() -> None:
    whole = work("t")
    asked = Step(source=Source.USER, content=text_part("Hurry."))
    spoken = Trajectory(id="t", steps=(*whole.steps[:2], asked, *whole.steps[2:]))
    assert Fold(keep=2).span(whole) == (1, 3)
    assert Fold(keep=2).span(spoken) is None
    assert Fold(keep=2, at_least=1).span(spoken) == (1, 2)


def test_facts_are_what_cannot_be_guessed() -> None:
    text = "See etc/net.conf, port 8443, user_id of mainLoop at a.b@c.de; it has 7 parts. Fine."
    assert facts(text) == {"etc/net.conf", "8443", "user_id", "mainLoop", "a.b@c.de"}
