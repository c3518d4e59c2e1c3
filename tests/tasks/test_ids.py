"""Compact ids behave as the tuple that they stand for."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from schemas.ids import scope_hash
from tasks.ids import Ids, as_ids

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=3), max_size=30)


@given(TEXTS, st.integers(-40, 40), st.integers(-40, 40))
def test_as_the_tuple_it_stands_for(texts: list[str], first: int, last: int) -> None:
    ids = Ids(texts)
    assert ids == texts == list(ids)
    assert as_ids(ids) is ids
    assert ids[first:last] == texts[first:last]
    assert ids[first:last].scope_hash() == scope_hash(texts[first:last])
    assert [ids[at] for at in range(-len(texts), len(texts))] == texts + texts
    assert ids != [*texts, "more"]
    assert bool(ids) is bool(texts)


@given(st.lists(TEXTS, max_size=5))
def test_joined_parts_hold_each_id_once_in_the_order_of_its_first_place(parts: list[list[str]]) -> None:
    assert Ids.joined([parts[0], *map(Ids, parts[1:])] if parts else []) == list(
        dict.fromkeys(chain.from_iterable(parts))
    )
