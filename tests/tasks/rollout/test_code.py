"""Programs that the model wrote run in the real sandbox, over several turns; the harness never speaks for it."""

from typing import Any

from schemas.trajectory import text_of
from schemas.vocabulary import ActionSpace, Source, Stage
from tasks.calls import call_outcomes
from tasks.operator import WorkingSet

PRINTS = "Let me see.\n```python\nprint(6 * 7)\n```"
FAILS = "```python\nprint(undefined_name)\n```"


def run(texts: list[str], put_tasks, entry, run_entry, lake, peer, made, **options: Any):
    """One rollout in which the model says `texts`, the last one again and again."""
    peer.script(*[made.reply(made.completion(text)) for text in texts])
    kind = options.pop("kind", "arithmetic")
    ran = run_entry(Stage.ROLLOUT, entry("code", **options), WorkingSet(tasks=put_tasks(1, kind)))
    (one,) = lake.trajectories(list(ran.after.trajectories))
    said = [text_of(step.content) for step in one.steps if step.source is Source.AGENT]
    assert said == texts[: len(said)], "an agent step that the model did not write"
    (row,) = lake.sql("select reason from decisions").to_pylist()
    return one, row["reason"]


def test_a_program_and_then_the_answer(put_tasks, entry, run_entry, lake, peer, made):
    one, reason = run([PRINTS, "42"], put_tasks, entry, run_entry, lake, peer, made, max_tokens=50, closing_tokens=8)
    assert [step.source for step in one.steps] == [Source.USER, Source.AGENT, Source.ENVIRONMENT, Source.AGENT]
    assert "printed:\n42" in text_of(one.steps[2].content)
    assert (reason, one.action_space) == ("ok", ActionSpace.CODE)
    assert [body["max_tokens"] for body in peer.bodies] == [50, 8]
    # What the model was shown is what the trajectory holds.
    assert peer.bodies[1]["messages"][-1]["content"] == text_of(one.steps[2].content)
    assert [span.step for span in lake.token_spans([one.id])[one.id]] == [1, 3]
    (outcome,) = call_outcomes(one)
    assert (outcome.code, outcome.failed) == ("print(6 * 7)\n", False)


def test_an_error_is_shown_and_mended(put_tasks, entry, run_entry, lake, peer, made):
    one, reason = run([FAILS, PRINTS, "Answer: 42"], put_tasks, entry, run_entry, lake, peer, made)
    assert reason == "ok"
    assert "NameError: name 'undefined_name' is not defined" in text_of(one.steps[2].content)
    assert [outcome.failed for outcome in call_outcomes(one)] == [True, False]


def test_it_ends_without_a_block_with_an_answer_or_after_max_turns(put_tasks, entry, run_entry, lake, peer, made):
    one, reason = run(["I think it is 42."], put_tasks, entry, run_entry, lake, peer, made)
    assert (len(one.steps), reason) == (2, "ok")


def test_an_answer_beside_the_block_ends_it(put_tasks, entry, run_entry, lake, peer, made):
    one, _ = run([PRINTS + "\nThe answer is 42."], put_tasks, entry, run_entry, lake, peer, made)
    assert len(one.steps) == 2


def test_max_turns(put_tasks, entry, run_entry, lake, peer, made):
    one, reason = run([PRINTS, PRINTS], put_tasks, entry, run_entry, lake, peer, made, max_turns=2)
    assert (len(one.steps), reason) == (4, "max_turns")


def test_a_cut_block_is_not_run(put_tasks, entry, run_entry, lake, peer, made):
    peer.script(made.reply(made.completion("```python\nprint(1", finish_reason="length")))
    ran = run_entry(Stage.ROLLOUT, entry("code"), WorkingSet(tasks=put_tasks(1)))
    (one,) = lake.trajectories(list(ran.after.trajectories))
    assert (len(one.steps), one.truncated) == (2, True)
    assert lake.sql("select reason from decisions").to_pylist() == [{"reason": "truncated"}]


def test_a_program_that_never_ends_is_stopped(put_tasks, entry, run_entry, lake, peer, made):
    texts = ["```python\nimport time\ntime.sleep(60)\n```", "gone"]
    one, _ = run(texts, put_tasks, entry, run_entry, lake, peer, made, wall_s=0.5)
    assert "it was stopped" in text_of(one.steps[2].content)


def test_what_a_program_printed_is_recorded(put_tasks, entry, run_entry, lake, peer, made):
    """A rerun after a crash asks the same questions, even when the program prints something else each time."""
    chance = "```python\nimport random\nprint(random.SystemRandom().random())\n```"
    peer.script(made.reply(made.completion(chance)), made.reply({"error": "down"}, 400))
    tasks = WorkingSet(tasks=put_tasks(1))
    assert run_entry(Stage.ROLLOUT, entry("code"), tasks).after.trajectories == ()
    first = peer.bodies[1]["messages"]
    peer.script(peer.ok)
    run_entry(Stage.ROLLOUT, entry("code"), tasks)
    assert len(peer.bodies) == 3  # the first turn was recorded, the second is asked again
    assert peer.bodies[2]["messages"] == first


def test_programming_tasks_are_told_how_to_end(put_tasks, entry, run_entry, lake, peer, made):
    block = "```python\ndef f():\n    return 1\n\nprint(f())\n```"
    one, reason = run([block, "Yes, it is."], put_tasks, entry, run_entry, lake, peer, made, kind="code")
    assert "Is the task solved?" in text_of(one.steps[2].content)
    assert (reason, len(one.steps)) == ("ok", 4)
