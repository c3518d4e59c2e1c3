"""A threshold is tried on what reaches the selector in its recipe, with the options that it has there."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.trajectory import Trajectory
from schemas.vocabulary import Stage
from tasks.context import Context
from tasks.curate.place import place_of
from tasks.curate.selector.near_duplicate import NearDuplicate
from tasks.operator import WorkingSet

EXACT, RISK = {"use": "exact"}, {"use": "data_risk", "drop": ["email"], "tag": []}
NEAR = {"use": "near_duplicate", "view": "actions", "threshold": 0.7}


@pytest.fixture
def inputs(make: Callable[..., Trajectory], store: Callable[..., None]) -> WorkingSet:
    """Two equal trajectories, one that names an address, one of its own."""
    made = [
        make("q", "the same words", sample=0),
        make("q", "the same words", sample=1),
        make("q", "ask ann.other@company.org"),
        make("q", "other words"),
    ]
    store(trajectories=made)
    return WorkingSet(trajectories=tuple(one.id for one in made))


def test_what_earlier_entries_dropped_is_not_looked_at(
    inputs: WorkingSet, run_entry: Callable[..., Any], make_context: Callable[..., Context]
) -> None:
    after = run_entry(Stage.CURATE, RISK, run_entry(Stage.CURATE, EXACT, inputs).after).after
    assert after.kept is not None and len(after.kept) == 2
    ctx = make_context(curate=(EXACT, RISK, NEAR, {"use": "verified"}))
    place = place_of(ctx, "near_duplicate", inputs)
    assert place.refs == after.kept
    assert place.selector == NearDuplicate(view="actions", threshold=0.7)
    assert place_of(ctx, "exact", inputs).refs == inputs.trajectories
    # One that the recipe does not name stands behind the last entry.
    ctx = make_context(curate=(EXACT, RISK))
    assert place_of(ctx, "near_duplicate", inputs) == (NearDuplicate(), after.kept)


def test_what_is_not_decided_yet_is_said(
    inputs: WorkingSet, run_entry: Callable[..., Any], make_context: Callable[..., Context]
) -> None:
    ctx = make_context(curate=(EXACT, NEAR))
    with pytest.raises(UserError, match="has not decided about 4 of 4"):
        place_of(ctx, "near_duplicate", inputs)
    run_entry(Stage.CURATE, EXACT, inputs)
    assert len(place_of(ctx, "near_duplicate", inputs).refs) == 3
    with pytest.raises(UserError, match="no threshold"):
        place_of(ctx, "verified", inputs)
