"""Entries of one stage that use the same plug-in are told apart by what differs in them."""

from gristmill.views.funnel import told_apart


def test_the_first_short_option_that_differs_tells_entries_apart() -> None:
    recipe = {
        "synthesize": [
            {"use": "reasoning_gym", "count": 10, "dataset": "chain_sum"},
            {"use": "programs"},
            {"use": "reasoning_gym", "count": 10, "dataset": "products"},
        ],
        "rollout": [{"use": "direct", "kinds": ["code"]}, {"use": "direct", "kinds": ["arithmetic", "logic"]}],
    }
    assert told_apart(recipe) == {
        ("synthesize", 0): "chain_sum",
        ("synthesize", 2): "products",
        ("rollout", 0): "code",
        ("rollout", 1): "arithmetic, logic",
    }


def test_what_is_long_missing_or_equal_tells_nothing() -> None:
    assert told_apart({}) == {}
    assert told_apart({"curate": [{"use": "exact"}, {"use": "exact"}]}) == {}
    # An option that one of them lacks names only the other.
    assert told_apart({"curate": [{"use": "exact", "raw": True}, {"use": "exact"}]}) == {}
    prompts = [{"use": "direct", "prompt": letter * 50} for letter in "ab"]
    assert told_apart({"rollout": prompts}) == {}
