"""Each rule about tool calls, and recorded against stitched trajectories."""

import json

import msgspec
import pytest

from schemas.ids import with_id
from tasks.curate.selector.exact import Exact
from tasks.curate.selector.provenance import Provenance
from tasks.curate.selector.strict_clean import StrictClean

EVERY = StrictClean(
    rules=("tool_error", "empty_result", "repeated_call", "unknown_tool", "missing_argument", "unknown_argument")
)
SCHEMA = {"type": "object", "properties": {"path": {}, "deep": {}}, "required": ["path"]}
TOOLS = json.dumps([{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}])


@pytest.mark.parametrize(
    ("reason", "calls"),
    [
        ("ok", [("look", '{"path":"a"}', "x"), ("look", '{"path":"b"}', "x"), ("look", '{"path":"a"}', "x")]),
        ("empty_result", [("look", '{"path":"a"}', " ")]),
        ("repeated_call", [("look", '{"path":"a"}', "x"), ("look", '{"path":"a"}', "x")]),
        ("unknown_tool", [("leap", '{"path":"a"}', "x")]),
        ("missing_argument", [("look", '{"deep":1}', "x")]),
        ("unknown_argument", [("look", '{"path":"a","far":1}', "x")]),
    ],
)
def test_rules(bench, make, reason, calls):
    plain = make("q", *calls, "done")
    steps = tuple(msgspec.structs.replace(step, tools=0) for step in plain.steps)
    (ref,) = bench.add(with_id(msgspec.structs.replace(plain, steps=steps, tool_sets=(TOOLS,)), "f"))
    outcome = bench.select(EVERY, [ref])[ref]
    assert outcome.reason == reason
    assert reason == "ok" or outcome.evidence["tool"] in ("look", "leap")


def test_a_failed_call(bench, make):
    plain = make("q", ("run", "{}", "Traceback"), "done")
    failed = msgspec.structs.replace(plain.steps[1].results[0], is_error=True)
    steps = (plain.steps[0], msgspec.structs.replace(plain.steps[1], results=(failed,)), plain.steps[2])
    ids = bench.add(plain, with_id(msgspec.structs.replace(plain, steps=steps), "f"))
    assert bench.kept(StrictClean(), ids) == ids[:1]


def test_real_and_stitched(bench, make):
    real = make("q", "a", task="t")
    stitched = with_id(msgspec.structs.replace(real, parents=("t", real.id)), "refine")
    ids = bench.add(real, stitched)
    assert bench.kept(Provenance(), ids) == ids[:1]
    assert bench.kept(Provenance(keep="stitched"), ids) == ids[1:]
    outcomes = bench.select(Provenance(keep="all"), ids)
    assert outcomes[ids[1]].evidence == {"parents": [real.id]}


def test_the_same_final_patch_is_the_same(bench, make):
    def patch(index, line):
        return (
            f"diff --git a/x.py b/x.py\nindex {index}\n--- a/x.py\n+++ b/x.py\n@@ -{line},2 +{line},2 @@\n-old\n+new\n"
        )

    ids = bench.add(
        make("fix", ("edit", "{}", "ok"), ("submit", "{}", patch("1a..2b", 3)), task="t"),
        make("fix", "I think.", ("submit", "{}", patch("3c..4d", 9)), task="t"),
        make("fix", "No patch", task="t"),
        make("fix", "None at all", task="t"),
    )
    assert len(bench.kept(Exact(view="patch"), ids)) == 3
    assert bench.kept(Exact(), ids) == ids


def test_the_newest_stays(bench, make):
    def at(sample, time):
        plain = make("q", "a", task="t", sample=sample)
        steps = tuple(msgspec.structs.replace(step, timestamp=time) for step in plain.steps)
        return msgspec.structs.replace(plain, steps=steps)

    ids = bench.add(at(0, "2024-01-02T00:00:00Z"), at(1, "2025-01-02T00:00:00Z"), at(2, None))
    assert bench.kept(Exact(keep="newest"), ids) == [ids[1]]
