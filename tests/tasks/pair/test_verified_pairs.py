"""Which samples of a task make a preference pair, what the pair holds, and why the others make none."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from schemas.errors import UserError
from schemas.rows import Verdict
from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory, text_part
from schemas.vocabulary import Source, Stage, Trust, VerdictKind
from tasks.operator import WorkingSet
from warehouse.lake import Lake

PAIR = {"use": "verified_pairs"}


def said(source: Source, text: str) -> Step:
    return Step(source=source, content=text_part(text))


def sample(name: str, *answers: str, task: str | None = "task", prompt: str = "2 + 3 =") -> Trajectory:
    """A trajectory: the prompt, then agent turns with an environment turn between each two."""
    steps = [said(Source.USER, prompt)]
    for number, answer in enumerate(answers):
        if number:
            steps.append(said(Source.ENVIRONMENT, "and?"))
        steps.append(said(Source.AGENT, answer))
    return Trajectory(id=name, task_id=task, steps=tuple(steps))


def verdict(name: str, kind: str, trust: Trust = Trust.OUTSIDE) -> Verdict:
    return Verdict(id=f"v-{name}", trajectory_id=name, verifier="exact", kind=VerdictKind(kind), trust=trust)


@pytest.fixture
def paired(store: Callable[..., None], run_entry: Callable[..., Any]) -> Callable[..., Any]:
    """Runs the pairer over samples given as (trajectory, verdict kind or None)."""

    def go(*samples: tuple[Trajectory, str | None], **options: Any) -> tuple[Any, list[Any]]:
        store(
            trajectories=[one for one, _ in samples],
            verdicts=[verdict(one.id, kind) for one, kind in samples if kind],
        )
        inputs = WorkingSet(trajectories=tuple(one.id for one, _ in samples))
        ran = run_entry(Stage.PAIR, {**PAIR, **options}, inputs)
        return ran.report, ran.ctx.lake.pairs(ran.after.pairs)

    return go


def test_pairs_verified_against_failed_and_leaves_the_unjudged_alone(paired: Callable[..., Any]) -> None:
    report, pairs = paired(
        (sample("a", "5"), "pass"),
        (sample("b", "6"), "fail"),
        (sample("c", "7"), "infrastructure"),
        (sample("d", "8"), None),
        (sample("e", "9", task=None), "fail"),
    )
    assert (report.n_seen, report.n_in, report.n_kept, report.reasons) == (5, 2, 2, {"paired": 2})
    (pair,) = pairs
    assert json.loads(pair.prompt_json) == [{"role": "user", "content": "2 + 3 ="}]
    assert json.loads(pair.chosen_json) == [{"role": "assistant", "content": "5"}]
    assert json.loads(pair.rejected_json) == [{"role": "assistant", "content": "6"}]
    assert pair.parents == ("a", "b")
    assert (pair.task_id, pair.kind, pair.tools_json) == ("task", "preference", None)


GROUPS: dict[str, tuple[list[tuple[Trajectory, str]], dict[str, str]]] = {
    "alone": ([(sample("a", "5"), "pass")], {"a": "single"}),
    "solved": ([(sample("a", "5"), "pass"), (sample("b", "5."), "pass")], {"a": "all_pass", "b": "all_pass"}),
    "unsolved": ([(sample("a", "4"), "fail"), (sample("b", "6"), "timeout")], {"a": "all_fail", "b": "all_fail"}),
    "same": ([(sample("a", "5"), "pass"), (sample("b", "5"), "fail")], {"a": "no_counterpart", "b": "identical"}),
    "long": (
        [(sample("a", "x", "5"), "pass"), (sample("b", "y", "6"), "fail")],
        {"a": "no_counterpart", "b": "multi_turn"},
    ),
    "one_long": ([(sample("a", "5"), "pass"), (sample("b", "y", "6"), "fail")], {"b": "multi_turn"}),
    "cut": ([(sample("a", "x", "5"), "pass"), (sample("b", "x"), "fail")], {"b": "prefix"}),
    "asked_otherwise": (
        [(sample("a", "5"), "pass"), (sample("b", "6", prompt="Add 2 and 3."), "fail")],
        {"b": "other_prompt"},
    ),
    "two_failed": (
        [(sample("a", "5"), "pass"), (sample("b", "6"), "fail"), (sample("c", "7"), "fail")],
        {"a": "paired", "b": "paired", "c": "paired"},
    ),
}


def test_every_member_is_paired_or_says_why_not(paired: Callable[..., Any], lake: Lake) -> None:
    samples = [
        (msgspec.structs.replace(one, id=f"{group}/{one.id}", task_id=group), kind)
        for group, (members, _) in GROUPS.items()
        for one, kind in members
    ]
    report, pairs = paired(*samples)
    assert report.n_in == len(samples) == report.n_kept + report.n_dropped
    assert {pair.task_id for pair in pairs} == {"two_failed"}
    said_of = {row["item_id"]: row["reason"] for row in lake.sql("select item_id, reason from decisions").to_pylist()}
    for group, (_, reasons) in GROUPS.items():
        assert {name: said_of[f"{group}/{name}"] for name in reasons} == reasons


def test_a_shared_beginning_is_the_prompt(paired: Callable[..., Any]) -> None:
    report, (pair,) = paired((sample("a", "x", "5"), "pass"), (sample("b", "x", "6"), "fail"))
    assert report.reasons == {"paired": 2}
    assert [message["role"] for message in json.loads(pair.prompt_json)] == ["user", "assistant", "user"]
    assert json.loads(pair.rejected_json) == [{"role": "assistant", "content": "6"}]


def test_following_pairs_the_first_differing_turn_only(paired: Callable[..., Any]) -> None:
    report, (pair,) = paired((sample("a", "x", "5"), "pass"), (sample("b", "y", "6"), "fail"), follow=True)
    assert report.reasons == {"paired": 2}
    assert json.loads(pair.chosen_json) == [{"role": "assistant", "content": "x"}]


def test_the_limit_per_task_is_counted(paired: Callable[..., Any]) -> None:
    bad = [(sample(f"f{k}", f"wrong {k}"), "fail") for k in range(3)]
    report, pairs = paired((sample("a", "5"), "pass"), (sample("b", "five"), "pass"), *bad, per_task=2)
    assert report.reasons == {"paired": 4, "over_limit": 1}
    assert [pair.parents for pair in pairs] == [("a", "f0"), ("b", "f1")]


def test_the_same_calls_with_other_answers_are_no_preference(paired: Callable[..., Any]) -> None:
    def called(name: str, answer: str, last: str) -> Trajectory:
        step = Step(
            source=Source.AGENT,
            tool_calls=(ToolCall(id="s1c0", name="roll", arguments="{}", arguments_json="{}"),),
            results=(ToolResult(call_id="s1c0", content=text_part(answer)),),
            tools=0,
        )
        steps = (said(Source.USER, "roll"), step, said(Source.AGENT, last))
        return Trajectory(id=name, task_id="task", steps=steps, tool_sets=('[{"name":"roll"}]',))

    report, _ = paired((called("a", "6", "six"), "pass"), (called("b", "1", "one"), "fail"))
    assert report.reasons == {"other_observation": 1, "no_counterpart": 1}


def test_the_tools_offered_go_into_the_pair(paired: Callable[..., Any]) -> None:
    def asked(name: str, argument: str) -> Trajectory:
        call = ToolCall(id="s1c0", name="add", arguments=argument, arguments_json=argument)
        step = Step(source=Source.AGENT, tool_calls=(call,), tools=0)
        steps = (said(Source.USER, "add"), step)
        return Trajectory(id=name, task_id="task", steps=steps, tool_sets=('[{"name":"add"}]',))

    _, (pair,) = paired((asked("a", '{"x":1}'), "pass"), (asked("b", '{"x":2}'), "fail"))
    assert json.loads(pair.tools_json) == [{"name": "add"}]
    assert json.loads(pair.chosen_json)[0]["tool_calls"][0]["function"]["arguments"] == {"x": 1}


def test_a_grown_group_is_decided_again_and_an_unchanged_one_is_not(
    store: Callable[..., None], run_entry: Callable[..., Any]
) -> None:
    store(trajectories=[sample("a", "5")], verdicts=[verdict("a", "pass")])
    first = run_entry(Stage.PAIR, PAIR, WorkingSet(trajectories=("a",)))
    assert first.report.reasons == {"single": 1}
    store(trajectories=[sample("b", "6")], verdicts=[verdict("b", "fail")])
    grown = run_entry(Stage.PAIR, PAIR, WorkingSet(trajectories=("a", "b")))
    assert grown.report.reasons == {"paired": 2}
    again = run_entry(Stage.PAIR, PAIR, WorkingSet(trajectories=("a", "b")))
    assert again.after == grown.after
    assert again.ctx.lake.sql("select count(*) as n from decisions").to_pylist() == [{"n": 3}]


def test_a_limit_below_one_is_refused(run_entry: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="per_task"):
        run_entry(Stage.PAIR, {**PAIR, "per_task": 0})


@pytest.mark.parametrize(("trust", "option"), [(Trust.MODEL, "trust_model"), (Trust.INSIDE, "trust_inside")])
def test_what_can_be_talked_round_is_preferred_only_where_the_recipe_says_so(
    store: Callable[..., None], run_entry: Callable[..., Any], trust: Trust, option: str
) -> None:
    good, bad = sample("a", "5"), sample("b", "6")
    store(trajectories=[good, bad], verdicts=[verdict("a", "pass", trust), verdict("b", "fail")])
    inputs = WorkingSet(trajectories=("a", "b"))
    ran = run_entry(Stage.PAIR, PAIR, inputs)
    assert (ran.report.n_in, ran.report.n_kept, ran.after.pairs) == (1, 0, ())
    ran = run_entry(Stage.PAIR, {**PAIR, option: True}, inputs)
    assert (ran.report.n_in, ran.report.n_kept, len(ran.after.pairs)) == (2, 2, 1)
