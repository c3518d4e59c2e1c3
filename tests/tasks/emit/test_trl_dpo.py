"""Preference rows: single turns only, arguments as objects."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets

from schemas.ids import content_id
from schemas.rows import Pair
from tasks.context import Context
from tasks.emit.exporter.trl_dpo import TrlDpo
from tasks.operator import WorkingSet
from warehouse.lake import Lake


def pair(chosen: list[dict[str, Any]], rejected: list[dict[str, Any]], kind: str = "preference", n: int = 0) -> Pair:
    return Pair(
        id=content_id("pair", chosen, rejected, kind, n),
        kind=kind,
        prompt_json=json.dumps([{"role": "user", "content": "q"}]),
        chosen_json=json.dumps(chosen),
        rejected_json=json.dumps(rejected),
        tools_json="[]",
    )


def turn(text: str, **arguments: Any) -> dict[str, Any]:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if arguments else {})}


def test_pairs_become_rows_or_reasons(
    lake: Lake, given: SimpleNamespace, make_context: Callable[..., Context], tmp_path: Path
) -> None:
    good = pair([turn("yes", a=1)], [turn("no", b="x")])
    pairs = [
        good,
        pair([turn("yes")], [turn("no"), {"role": "tool", "content": "r"}]),
        pair([turn("same")], [turn("same")]),
        pair([turn("yes")], [turn("no")], kind="critique"),
    ]
    lake.append(given.stamp, {"pairs": pairs})
    ctx = make_context()
    exporter = TrlDpo()
    plan = exporter.plan(WorkingSet(pairs=tuple(each.id for each in pairs)), ctx)
    result = exporter.run(plan.items, ctx)
    assert sorted(outcome.reason for outcome in result.outcomes) == ["multi_turn", "no_difference", "ok", "other_kind"]
    (row,) = datasets.load_dataset(str(ctx.out / "trl_dpo"), cache_dir=str(tmp_path / "cache"))["train"]
    assert row["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert row["rejected"][0]["tool_calls"][0]["function"]["arguments"] == {"b": "x"}
    assert row["tools"] is None
