"""Each fault of structure has its reason, and a whole run has none."""

import msgspec
import pytest

from schemas.trajectory import Step, text_part
from schemas.vocabulary import ArgumentState, Source
from tasks.curate.selector.structural import Structural


def reason(bench, trajectory, **options):
    (ref,) = bench.add(trajectory)
    outcome = bench.select(Structural(**options), [ref])[ref]
    assert outcome.reason == "ok" or outcome.evidence
    return outcome.reason


CALL = ("run", '{"code":"1+1"}', "2")


def test_whole_runs_stay(bench, make):
    assert reason(bench, make("q", "a")) == "ok"
    assert reason(bench, make("q", CALL, "It is 2.")) == "ok"
    assert reason(bench, make("q", CALL, ("submit", "{}", None))) == "ok"


def test_no_agent_step(bench, make):
    assert reason(bench, make("q")) == "no_agent_step"


def test_copied_context_is_no_action(bench, make):
    whole = make("q", "a")
    copied = msgspec.structs.replace(
        whole, id="c", steps=tuple(msgspec.structs.replace(step, copied_context=True) for step in whole.steps)
    )
    assert reason(bench, copied) == "no_agent_step"


def test_ends_mid_action(bench, make):
    assert reason(bench, make("q", ("run", "{}", None))) == "ends_mid_action"


def test_ends_on_a_result_or_another_speaker(bench, make):
    assert reason(bench, make("q", CALL)) == "no_answer"
    assert reason(bench, make("q", CALL), allow_no_answer=True) == "ok"
    asked = make("q", "a")
    more = Step(source=Source.USER, content=text_part("and then?"))
    assert reason(bench, msgspec.structs.replace(asked, id="u", steps=(*asked.steps, more))) == "no_answer"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_answer(bench, make, text):
    assert reason(bench, make("q", text)) == "empty_answer"


def test_cut_by_the_token_limit(bench, make):
    assert reason(bench, make("q", "The answer is", finish="length")) == "cut"
    assert reason(bench, make("q", "The answer is", finish="length"), allow_cut=True) == "ok"
    assert reason(bench, make("q", "The answer was", truncated=True)) == "cut"


def test_unparsed_and_unanswered_calls(bench, make):
    good = make("q", CALL, "done")
    call = msgspec.structs.replace(good.steps[1].tool_calls[0], state=ArgumentState.UNPARSED, arguments="{oops")
    steps = (good.steps[0], msgspec.structs.replace(good.steps[1], tool_calls=(call,)), good.steps[2])
    assert reason(bench, msgspec.structs.replace(good, id="p", steps=steps)) == "unparsed_call"
    assert reason(bench, make("q", ("run", "{}", None), "done")) == "unanswered_call"
    assert reason(bench, make("q", ("run", "{}", None), "done."), allow_unanswered=True) == "ok"


def test_looping_and_too_few_calls(bench, make):
    assert reason(bench, make("q", *[CALL] * 6, "done")) == "looping"
    assert reason(bench, make("q", *[CALL] * 6, "done."), max_repeats=0) == "ok"
    assert reason(bench, make("q", CALL, "so."), min_calls=2) == "too_few_calls"
