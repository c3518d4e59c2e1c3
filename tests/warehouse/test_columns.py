"""Structs to columns and back: every value, NULL, empty list and empty text comes back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.trajectory import (
    Outcome,
    Part,
    Policy,
    Provenance,
    Step,
    Subagent,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
)
from schemas.vocabulary import ArgumentState, PairedBy, PartType, Source
from warehouse.arrow import from_arrow, to_arrow

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.just("a\0b")
MAYBE = st.none() | TEXT
WHOLE = st.none() | st.integers(-(2**63), 2**63 - 1)
REAL = st.none() | st.floats(allow_nan=False, allow_infinity=False)
FLAG = st.none() | st.booleans()


def many(element: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(element, max_size=2).map(tuple)


PARTS = many(st.builds(Part, type=st.sampled_from(PartType), text=MAYBE, media_type=MAYBE, sha256=MAYBE, uri=MAYBE))
CALLS = many(
    st.builds(
        ToolCall,
        id=TEXT,
        name=TEXT,
        arguments=TEXT,
        arguments_json=MAYBE,
        state=st.sampled_from(ArgumentState),
        source_id=MAYBE,
        id_generated=st.booleans(),
    )
)
RESULTS = many(
    st.builds(
        ToolResult,
        call_id=MAYBE,
        source_call_id=MAYBE,
        name=MAYBE,
        content=PARTS,
        is_error=FLAG,
        paired_by=st.sampled_from(PairedBy),
    )
)
STEPS = many(
    st.builds(
        Step,
        source=st.sampled_from(Source),
        content=PARTS,
        reasoning=MAYBE,
        tool_calls=CALLS,
        results=RESULTS,
        tools=WHOLE,
        usage=st.none() | st.builds(Usage, prompt_tokens=WHOLE, cost_usd=REAL),
        weight=REAL,
        reward=REAL,
        source_inferred=st.booleans(),
        extra_json=MAYBE,
    )
)
TRAJECTORIES = st.builds(
    Trajectory,
    id=TEXT,
    steps=STEPS,
    parents=many(TEXT),
    tool_sets=many(TEXT),
    policy=st.builds(Policy, model=MAYBE),
    provenance=st.builds(Provenance, dataset=MAYBE, lost_fields=many(TEXT)),
    outcome=st.builds(Outcome, success=FLAG, score=REAL, raw_json=MAYBE),
    thinking=FLAG,
    branch_point=WHOLE,
    subagents=many(st.builds(Subagent, step=st.integers(0, 9), trajectory_id=TEXT, call_id=MAYBE)),
    truncated=st.booleans(),
)


@given(st.lists(TRAJECTORIES, max_size=4))
def test_trajectories_come_back_equal(rows: list[Trajectory]) -> None:
    assert from_arrow(to_arrow("trajectories", rows), Trajectory) == rows


def test_a_long_observation_and_many_steps(tmp_path: object) -> None:
    step = Step(source=Source.ENVIRONMENT, results=(ToolResult(content=(Part(text="é\n" * 2_500_000),)),))
    row = Trajectory(id="x", steps=(step, *[Step(source=Source.AGENT)] * 10_000))
    assert from_arrow(to_arrow("trajectories", [row]), Trajectory) == [row]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(Exception, match="not finite"):
        to_arrow("trajectories", [Trajectory(id="x", steps=(Step(source=Source.AGENT, weight=value),))])
