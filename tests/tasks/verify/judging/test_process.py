"""Verifiers of how an agent went about it: consistency, grounding, ternary labels with live probes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas.rows import Verdict
from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory, text_part
from schemas.vocabulary import Source, Stage, Trust
from tasks.operator import WorkingSet
from tasks.verify.judging.probes import probe
from tasks.verify.judging.process import Shown, steps_of
from tasks.verify.verifier.grounding import citations
from warehouse.lake import Lake

YES, NO = '{"reason": "fits", "verdict": "yes"}', '{"reason": "does not fit", "verdict": "no"}'


def user(text: str) -> Step:
    return Step(source=Source.USER, content=text_part(text))


def agent(text: str, number: int = 0, code: str | None = None, output: str | None = None, error: bool = False) -> Step:
    """An agent's step; with code, one call of a Python tool; with output, its result."""
    call = ToolCall(
        id=f"s{number}c0",
        name="python",
        arguments=json.dumps({"code": code}),
        arguments_json=json.dumps({"code": code}),
    )
    result = ToolResult(call_id=call.id, content=text_part(output or ""), is_error=error)
    return Step(
        source=Source.AGENT, content=text_part(text), tool_calls=(call,) if code is not None else (),
        results=(result,) if output is not None else (),
    )  # fmt: skip


def run(*steps: Step, name: str = "t") -> Trajectory:
    return Trajectory(id=name, steps=steps)


@pytest.fixture
def check(
    run_entry: Callable[..., Any], store: Callable[..., None], lake: Lake, endpoint: Any
) -> Callable[..., Verdict]:
    def one(entry: dict[str, Any], trajectory: Trajectory, answer: Callable[[str], str | int]) -> Verdict:
        endpoint.answer = answer
        store(trajectories=[trajectory])
        inputs = WorkingSet(trajectories=(trajectory.id,))
        run_entry(Stage.VERIFY, entry, inputs, teacher=endpoint.teacher())
        return lake.verdicts([trajectory.id])[trajectory.id][0]

    return one


def evidence(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(verdict.evidence_json)
    return found


CONSISTENT = run(
    user("What is 6 * 7?"),
    agent("I multiply.", 1, "print(6 * 7)", "42"),
    agent("I add, to be sure.", 2, "print(41 + 1)", "42"),
    agent("It is 42."),
)


def test_steps_that_fit_together_pass_and_each_is_asked_about(check: Callable[..., Verdict], endpoint: Any) -> None:
    found = check({"use": "step_consistency"}, CONSISTENT, lambda _: YES)
    assert (found.kind.value, found.reward, found.trust) == ("pass", 1.0, Trust.MODEL)
    first, second = sorted(body["messages"][-1]["content"] for body in endpoint.asked)
    assert "I add" in first and "print(41 + 1)" in first and "afterwards it said: It is 42." in first
    assert "afterwards it said: I add" in second


def test_a_step_that_does_not_fit_is_named(check: Callable[..., Verdict]) -> None:
    found = check({"use": "step_consistency"}, CONSISTENT, lambda text: NO if "plan: I add" in text else YES)
    assert (found.kind.value, found.reward) == ("fail", 0.5)
    assert evidence(found)["inconsistent"] == [{"step": 2, "why": "does not fit"}]


def test_a_call_without_a_result_is_seen_without_asking(check: Callable[..., Verdict], endpoint: Any) -> None:
    found = check(
        {"use": "step_consistency"}, run(user("?"), agent("Look.", 1, "print(1)"), agent("Done.")), lambda _: YES
    )
    assert (found.kind.value, evidence(found)["reason"], found.trust) == ("fail", "unanswered", Trust.OUTSIDE)
    assert not endpoint.asked


def test_a_trajectory_without_calls_has_nothing_to_disagree(check: Callable[..., Verdict], endpoint: Any) -> None:
    found = check({"use": "step_consistency"}, run(user("Hi"), agent("Hello.")), lambda _: YES)
    assert (found.kind.value, evidence(found)["reason"]) == ("pass", "no_calls")
    assert not endpoint.asked


def grounded(last: str) -> Trajectory:
    return run(
        user("What colour is the sky?"),
        agent("I look.", 1, "look()", "The sky is  blue\ntoday."),
        agent("I ask.", 2, "ask()", "Grass is green."),
        agent(last),
    )


def supports(text: str) -> str:
    observation = text.partition("observation: ")[2].partition("\nstatement: ")[0]
    return YES if "blue" in observation and "blue" in text.partition("\nstatement: ")[2] else NO


@pytest.mark.parametrize(
    ("last", "kind", "reward", "reason"),
    [
        ("The sky is blue [obs 1].", "pass", 1.0, "pass"),
        ('The sky is blue. [obs 1: "sky is blue today"]', "pass", 1.0, "pass"),
        ('The sky is blue [obs 1: "sky was blue"].', "fail", 0.0, "not_there"),
        ("The sky is blue [obs 3].", "fail", 0.0, "not_there"),
        ("The sky is blue [obs 2].", "fail", 0.0, "unsupported"),
        ("The sky is blue [obs 1]. It is blue, really [source 9].", "fail", 0.5, "not_there"),
        ("The sky is blue.", "fail", 0.0, "no_citation"),
    ],
)
def test_citations_must_exist_and_support(
    check: Callable[..., Verdict], last: str, kind: str, reward: float, reason: str
) -> None:
    found = check({"use": "grounding"}, grounded(last), supports)
    assert (found.kind.value, found.reward, evidence(found)["reason"]) == (kind, reward, reason)
    assert found.trust is (Trust.OUTSIDE if reward == 0.0 and reason != "unsupported" else Trust.MODEL)


def test_a_citation_belongs_to_its_sentence() -> None:
    steps = [Shown(index=3, who="agent", text="It rains. The sky is grey [obs 2]! So: take it. [obs 1]\nBye.")]
    assert [(each.statement, each.number) for each in citations(steps)] == [
        ("The sky is grey !", 2), ("So: take it.", 1),
    ]  # fmt: skip


LABELLED = run(
    user("What is 6 * 7?"),
    agent("I guess.", 1, "print('about forty')", "about forty"),
    agent("I multiply.", 2, "print(6 * 7)", "41"),
    agent("I look.", 3, "print(open('/nothing').read())", "fine"),
    agent("It is 42."),
)


def label(text: str) -> str:
    step = text.partition("THE STEP:")[2]
    name = "correctable" if "I guess" in step else "correct"
    return json.dumps({"reason": f"it is {name}", "label": name})


def test_silent_errors_are_found_by_running_the_code_again(
    check: Callable[..., Verdict], lake: Lake, endpoint: Any
) -> None:
    found = check({"use": "ternary_labels"}, LABELLED, label)
    told = evidence(found)
    assert [each["label"] for each in told["labels"]] == ["correctable", "correctable", "correctable", "correct"]
    assert [each["why"] for each in told["labels"]][1:3] == ["silent_error: differs", "silent_error: fails_now"]
    assert (told["silent_errors"], told["probes"]) == ([2, 3], 3)
    assert (found.kind.value, found.reward, found.trust) == ("pass", 0.625, Trust.MODEL)
    rows = lake.sql("select step, label, reward from step_labels order by step").to_pylist()
    assert [(row["step"], row["label"], row["reward"]) for row in rows] == [
        (1, "correctable", 0.5), (2, "correctable", 0.5), (3, "correctable", 0.5), (4, "correct", 1.0),
    ]  # fmt: skip
    about = [body["messages"][-1]["content"] for body in endpoint.asked]
    assert any("it gives another result. Recorded: '41'. Now: '42" in text for text in about)


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (lambda _: '{"reason": "lost", "label": "irrecoverable"}', "fail", "irrecoverable"),
        (lambda _: '{"reason": "off", "label": "correctable"}', "fail", "ends_wrong"),
        (lambda _: '{"reason": "?", "label": "fine"}', "unparsable", "judge_unparsable"),
    ],
)
def test_how_labels_become_a_verdict(
    check: Callable[..., Verdict], lake: Lake, answer: Callable[[str], str], kind: str, reason: str
) -> None:
    found = check({"use": "ternary_labels", "session": "off"}, CONSISTENT, answer)
    assert (found.kind.value, evidence(found)["reason"]) == (kind, reason)
    assert lake.sql("select count(*) as n from step_labels")["n"][0].as_py() == (0 if kind == "unparsable" else 3)


def test_a_session_is_replayed_before_each_probe(bare: Any) -> None:
    steps = steps_of(run(agent("", 0, "x = 20", ""), agent("", 1, "x + 22", "42"), agent("", 2, "x + 1", "20")))
    found = probe(steps, "notebook", bare)
    assert [found[index].finding for index in (0, 1, 2)] == ["same", "same", "differs"]
    assert probe(steps, "script", bare)[1].finding == "fails_now"
