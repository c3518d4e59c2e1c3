"""tasks × teachers × samples become trajectories; every planned item is accounted for."""

import json

from schemas.recipe import Budget
from schemas.trajectory import text_of
from schemas.vocabulary import ArgumentState, Source, Stage
from tasks.operator import WorkingSet
from tasks.rollout.episode import argument_state


def rolled(ran, lake):
    return lake.trajectories(list(ran.after.trajectories))


def test_tasks_times_samples(put_tasks, entry, run_entry, lake, peer):
    tasks = WorkingSet(tasks=put_tasks(3))
    ran = run_entry(Stage.ROLLOUT, entry("direct", samples=4, max_tokens=9), tasks)
    made = rolled(ran, lake)
    assert len(made) == 12
    assert {(one.task_id, one.sample_index) for one in made} == {(t, s) for t in tasks.tasks for s in range(4)}
    one = made[0]
    assert [step.source for step in one.steps] == [Source.USER, Source.AGENT]
    assert one.parents == (one.task_id,)
    assert (one.policy.teacher, one.policy.model, one.policy.harness) == ("openai:m", "m", "direct")
    assert one.steps[1].usage.completion_tokens == 3
    spans = lake.token_spans([one.id])[one.id]
    assert [(span.step, span.finish_reason) for span in spans] == [(1, "stop")]
    assert json.loads(spans[0].request_json)["max_tokens"] == 9
    assert lake.sql("select count(*) n from requests").to_pylist() == [{"n": 12}]
    assert {body["seed"] for body in peer.bodies} and len({body["seed"] for body in peer.bodies}) == 12


def test_again_calls_nothing_and_adds_nothing(put_tasks, entry, run_entry, lake, peer):
    tasks = WorkingSet(tasks=put_tasks(2))
    first = run_entry(Stage.ROLLOUT, entry("direct", samples=2), tasks)
    again = run_entry(Stage.ROLLOUT, entry("direct", samples=2), tasks)
    assert first.after.trajectories == again.after.trajectories
    assert len(peer.bodies) == 4


def test_more_samples_only_add(put_tasks, entry, run_entry, peer):
    tasks = WorkingSet(tasks=put_tasks(2))
    few = run_entry(Stage.ROLLOUT, entry("direct", samples=2), tasks)
    many = run_entry(Stage.ROLLOUT, entry("direct", samples=3), tasks)
    assert set(few.after.trajectories) < set(many.after.trajectories)
    assert len(peer.bodies) == 6


def test_two_teachers_that_answer_the_same_stay_two(put_tasks, entry, run_entry, peer, made):
    peer.script(made.reply(made.completion("same")))
    both = entry("direct")
    both["teachers"].append({**both["teachers"][0], "temperature": 0.1})
    ran = run_entry(Stage.ROLLOUT, both, WorkingSet(tasks=put_tasks(1)))
    assert len(ran.after.trajectories) == 2


def test_kinds_choose_and_the_rest_is_seen(put_tasks, entry, run_entry):
    tasks = WorkingSet(tasks=(*put_tasks(2), *put_tasks(3, "code")))
    ran = run_entry(Stage.ROLLOUT, entry("direct", kinds=["code"], max_tokens={"code": 5}), tasks)
    assert len(ran.after.trajectories) == 3
    assert ran.report.n_seen == 5


def test_a_failed_call_is_a_dead_letter_that_is_tried_again(put_tasks, entry, run_entry, lake, peer, made):
    peer.script(made.reply({"error": "bad"}, 400), peer.ok)
    tasks = WorkingSet(tasks=put_tasks(2))
    one_lane = entry("direct", {"parallel": 1})
    ran = run_entry(Stage.ROLLOUT, one_lane, tasks)
    assert len(ran.after.trajectories) == 1
    (letter,) = lake.sql("select reason, source, detail, retry from dead_letters").to_pylist()
    assert (letter["reason"], letter["source"], letter["retry"]) == ("rejected", peer.url, True)
    assert "HTTP 400" in letter["detail"]
    assert len(run_entry(Stage.ROLLOUT, one_lane, tasks).after.trajectories) == 2
    assert len(peer.bodies) == 3


def test_what_the_budget_left_is_pending(put_tasks, entry, run_entry, peer):
    tasks = WorkingSet(tasks=put_tasks(5))
    ran = run_entry(Stage.ROLLOUT, entry("direct"), tasks, budget=Budget(calls=2))
    assert len(ran.after.trajectories) == 2
    assert (ran.report.n_pending, len(peer.bodies)) == (3, 2)
    assert len(run_entry(Stage.ROLLOUT, entry("direct"), tasks).after.trajectories) == 5
    assert len(peer.bodies) == 5


def test_tool_calls_keep_order_and_get_our_ids(put_tasks, entry, run_entry, lake, peer, made):
    tools = '[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]'
    calls = [
        {"id": "same", "type": "function", "function": {"name": "f", "arguments": '{"b": 1, "a": 2}'}},
        {"id": "same", "type": "function", "function": {"name": "f", "arguments": '{"a": '}},
    ]
    peer.script(made.reply(made.completion(message={"content": None, "tool_calls": calls}, finish_reason="length")))
    ran = run_entry(Stage.ROLLOUT, entry("direct"), WorkingSet(tasks=put_tasks(1, tools_json=tools)))
    (one,) = rolled(ran, lake)
    first, second = one.steps[1].tool_calls
    assert (first.id, second.id, first.source_id) == ("s1c0", "s1c1", "same")
    assert (first.arguments, first.arguments_json) == ('{"b": 1, "a": 2}', '{"a":2,"b":1}')
    assert (second.state, second.arguments, second.arguments_json) == (ArgumentState.TRUNCATED, '{"a": ', None)
    assert (one.tool_sets, one.steps[1].tools, one.truncated) == ((tools,), 0, True)
    assert peer.bodies[0]["tools"] == json.loads(tools)


def test_refusals_and_empty_answers_are_kept_under_their_reason(put_tasks, entry, run_entry, lake, peer, made):
    peer.script(
        made.reply(made.completion(message={"content": None, "refusal": "No."})), made.reply(made.completion(""))
    )
    ran = run_entry(Stage.ROLLOUT, entry("direct", {"parallel": 1}, samples=2), WorkingSet(tasks=put_tasks(1)))
    reasons = lake.sql("select reason from decisions order by reason").to_pylist()
    assert [row["reason"] for row in reasons] == ["empty", "refusal"]
    assert {text_of(one.steps[1].content) for one in rolled(ran, lake)} == {"No.", ""}


def test_argument_states():
    assert argument_state('{"a": 1}', cut=False) == (ArgumentState.PARSED, '{"a":1}')
    assert argument_state("", cut=False) == (ArgumentState.PARSED, "{}")
    assert argument_state('{"a": "x', cut=False)[0] is ArgumentState.TRUNCATED
    assert argument_state('{"a": 1,', cut=False)[0] is ArgumentState.TRUNCATED
    assert argument_state("call me", cut=False)[0] is ArgumentState.UNPARSED
    assert argument_state("[1]", cut=False)[0] is ArgumentState.UNPARSED
    assert argument_state('{"a": NaN}', cut=False)[0] is ArgumentState.UNPARSED
    assert argument_state("[" * 100_000, cut=False)[0] in (ArgumentState.UNPARSED, ArgumentState.TRUNCATED)
