"""Of a task's trajectories those stay that got out of the most, or came from the lowest reward."""

import msgspec

from schemas.trajectory import Step, ToolCall, ToolResult, text_part
from schemas.vocabulary import Decision, Source, VerdictKind
from tasks.curate.selector.worst_state_priority import WorstStatePriority

replace = msgspec.structs.replace


def runs(make, *patterns, task="a", name=""):
    """A trajectory a pattern: x is a failed call, o one that succeeded; it ends with an answer."""
    made = []
    for number, pattern in enumerate(patterns):
        steps = [Step(source=Source.USER, content=text_part("go"))]
        for index, sign in enumerate(pattern, 1):
            call = ToolCall(id=f"s{index}c0", name="run", arguments="{}", arguments_json="{}")
            result = ToolResult(call_id=call.id, content=text_part(sign), is_error=sign == "x")
            steps.append(Step(source=Source.AGENT, tool_calls=(call,), results=(result,)))
        steps.append(Step(source=Source.AGENT, content=text_part("done")))
        one = make("go", "done", task=task, sample=number)
        made.append(replace(one, steps=tuple(steps), id=f"{name}{task}{number}{one.id}"))
    return made


def test_those_that_got_out_of_the_most_stay(bench, make):
    ids = bench.add(*runs(make, "oo", "xo", "xxo", "oxxx"), *runs(make, "xoxo", "xxxo", task="b"))
    outcomes = bench.select(WorstStatePriority(), ids)
    assert [outcomes[ref].decision is Decision.KEEP for ref in ids] == [False, False, True, False, False, True]
    assert [outcomes[ref].score for ref in ids] == [None, 1, 2, None, 1, 3]
    assert outcomes[ids[1]].reason == "better_state"
    assert outcomes[ids[1]].evidence == {"rank": 2, "stay": 1}
    # Failures at the end were not got out of: such a run ranks with those that had no trouble.
    assert outcomes[ids[3]].evidence["rank"] in (3, 4)
    assert bench.select(WorstStatePriority(), ids[::-1]) == {ref: outcomes[ref] for ref in ids[::-1]}
    assert bench.kept(WorstStatePriority(per_task=2), ids) == [ids[1], ids[2], ids[4], ids[5]]


def test_a_verdict_decides_between_equal_states(bench, make):
    ids = bench.add(*runs(make, "xo", "xo"))
    for ref in ids:
        bench.judge(ref, VerdictKind.FAIL, 0.0)
    before = bench.kept(WorstStatePriority(), ids)
    (other,) = set(ids) - set(before)
    bench.judge(other, VerdictKind.PASS, 1.0, verifier="w")
    assert bench.kept(WorstStatePriority(), ids) == [other]


def test_the_lowest_reward_before_the_last_step(bench, make):
    rewards = [(0.5, 0.2, 0.0), (0.1, None, 1.0), (None, None, 0.0), (0.9, 0.9, 1.0)]
    made = []
    for number, row in enumerate(rewards):
        one = make("q", "a", "b", "c", task="a", sample=number)
        steps = [step if at == 0 else replace(step, reward=row[at - 1]) for at, step in enumerate(one.steps)]
        # The first reward may be copied context: this one went on from there.
        steps[1] = replace(steps[1], copied_context=True)
        made.append(replace(one, steps=tuple(steps)))
    ids = bench.add(*made)
    outcomes = bench.select(WorstStatePriority(measure="reward", per_task=2), ids)
    assert [outcomes[ref].score for ref in ids] == [-0.2, -0.1, None, -0.9]
    assert [outcomes[ref].evidence["rank"] for ref in ids] == [2, 1, 4, 3]
