"""Every selector is found by its id and tells what its options mean."""

import re

import msgspec

from schemas.vocabulary import Kind, Stage
from tasks.curate.base import Selector
from tasks.registry import plugin_class, plugin_ids


def test_all_are_selectors_with_documented_options():
    ids = plugin_ids(Kind.SELECTOR)
    assert {"decontaminate", "exact", "near_duplicate", "semantic", "split", "structural", "verified"} <= set(ids)
    for name in ids:
        cls = plugin_class(Kind.SELECTOR, name)
        assert issubclass(cls, Selector)
        assert (cls.stage, cls.effect) == (Stage.CURATE, "filter")
        for field in msgspec.structs.fields(cls):
            assert re.search(rf"\b{field.encode_name}\b", cls.__doc__ or ""), f"{name}.{field.encode_name}"


def test_what_bars_everywhere_looks_at_everything():
    for name in plugin_ids(Kind.SELECTOR):
        cls = plugin_class(Kind.SELECTOR, name)
        assert issubclass(cls, Selector)
        assert cls.bars_everywhere == (cls.reads == "trajectory"), name
