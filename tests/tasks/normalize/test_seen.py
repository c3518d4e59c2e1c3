"""Blocks of keys are counted as one after the other would be."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.normalize.seen import Seen


@given(st.lists(st.lists(st.integers(0, 12) | st.integers(0, 2**64 - 1), max_size=20), max_size=12))
def test_how_often_each_came_before(blocks: list[list[int]]) -> None:
    seen, plain = Seen(), Counter[int]()
    for block in blocks:
        expected = []
        for key in block:
            expected.append(plain[key])
            plain[key] += 1
        assert seen.before(np.array(block, np.uint64)).tolist() == expected
    assert len(seen._runs) < 8
