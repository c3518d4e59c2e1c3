"""RL rows: one per judged task, group statistics over first-hand rollouts, verdicts from inside only on request."""

import json
from collections.abc import Callable
from itertools import pairwise
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import msgspec
import pytest
from hypothesis import given as each
from hypothesis import strategies as st

from schemas.ids import content_id, with_id
from schemas.vocabulary import Trust, VerdictKind
from tasks.context import Context
from tasks.emit.exporter.trl_grpo import TrlGrpo
from tasks.emit.groups import curriculum_key, pass_at
from tasks.emit.manifest import read_manifest
from tasks.operator import Result, WorkingSet
from warehouse.lake import Lake

Make = Callable[..., Context]
replace = msgspec.structs.replace


def load(ctx: Context, tmp_path: Path) -> dict[str, dict[str, Any]]:
    rows = datasets.load_dataset(str(ctx.out / "trl_grpo"), cache_dir=str(tmp_path / "cache"))["train"]
    return {row["task_id"]: row for row in rows}


def emit(exporter: TrlGrpo, inputs: WorkingSet, ctx: Context) -> tuple[Result, dict[str, str]]:
    items = exporter.plan(inputs, ctx).items
    result = exporter.run(items, ctx)
    refs = {item.id: item.ref for item in items}
    return result, {refs[outcome.item_id]: outcome.reason for outcome in result.outcomes}


def group(given: SimpleNamespace, task: Any, passes: str, **more: Any) -> tuple[list[Any], list[Any]]:
    """Rollouts of a task and their verdicts: one letter each, p for pass and f for fail."""
    made = [given.chat(task.prompt[0].content, f"answer {i}", task=task.id, sample=i) for i in range(len(passes))]
    return made, [given.verdict(one, letter == "p", **more) for one, letter in zip(made, passes, strict=True)]


def test_statistics_reasons_and_columns(lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path) -> None:
    tasks = [given.task(f"task {i}", gold=str(i), spec=json.dumps({"tests": [i]})) for i in range(5)]
    mixed, solved, failed, unjudged, inside = tasks
    made, said = [], []
    for task, passes, more in (
        (mixed, "pffff", {}),
        (solved, "ppp", {}),
        (failed, "ff", {}),
        (inside, "pf", {"trust": Trust.INSIDE}),
    ):
        rollouts, verdicts = group(given, task, passes, **more)
        made += rollouts
        said += verdicts
    # An infrastructure error is no verdict on the answer, another verifier's is not the task's own.
    said[4] = replace(said[4], kind=VerdictKind.INFRASTRUCTURE, reward=None)
    said.append(given.verdict(made[4], True, use="other"))
    made.append(given.chat("task 3", "unjudged", task=unjudged.id))
    lake.append(given.stamp, {"tasks": tasks, "trajectories": made, "verdicts": said})
    inputs = WorkingSet(tasks=tuple(t.id for t in tasks), trajectories=tuple(one.id for one in made))
    ctx = make_context()

    _, reasons = emit(TrlGrpo(k=2), inputs, ctx)
    assert reasons == {
        mixed.id: "ok",
        solved.id: "ok",
        failed.id: "ok",
        unjudged.id: "no_verdict",
        inside.id: "trust_inside",
    }
    rows = load(ctx, tmp_path)
    row = rows[mixed.id]
    assert (row["n"], row["c"], row["pass_at_1"]) == (4, 1, 0.25)
    assert row["pass_at_k"] == pytest.approx(1 - comb(3, 2) / comb(4, 2))
    assert row["prompt"] == [{"role": "user", "content": "task 0"}]
    assert (row["verifier"], json.loads(row["verifier_spec"])) == ("exact_answer", {"tests": [0]})
    assert row["ground_truth"] == "0"
    assert rows[solved.id]["curriculum_key"] < row["curriculum_key"] < rows[failed.id]["curriculum_key"]
    assert not {"completion", "completion_ids"} & set(row)
    assert read_manifest(ctx.out / "trl_grpo").facts == {"mixed_groups": 1, "passed": 4, "samples": 9}

    _, reasons = emit(TrlGrpo(groups="mixed"), inputs, ctx)
    assert (reasons[solved.id], reasons[failed.id]) == ("all_pass", "all_fail")
    _, reasons = emit(TrlGrpo(min_samples=3), inputs, ctx)
    assert reasons[failed.id] == "few_samples"
    _, reasons = emit(TrlGrpo(trust_inside=True), inputs, ctx)
    assert reasons[inside.id] == "ok"


def test_a_repaired_answer_does_not_count_as_a_sample(
    lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path
) -> None:
    task = given.task("q")
    made, said = group(given, task, "pf")
    repaired = with_id(replace(made[1], parents=(made[1].id,)), "repair")
    branch = with_id(replace(made[1], parents=(repaired.id,), sample_index=7), "branch")
    said.append(given.verdict(repaired, True))
    lake.append(given.stamp, {"tasks": [task], "trajectories": [*made, repaired, branch], "verdicts": said})
    inputs = WorkingSet(tasks=(task.id,), trajectories=(made[0].id, branch.id))
    ctx = make_context()
    emit(TrlGrpo(), inputs, ctx)
    row = load(ctx, tmp_path)[task.id]
    assert (row["n"], row["c"]) == (2, 1)


def test_a_new_verdict_makes_a_new_item(lake: Lake, given: SimpleNamespace, make_context: Make) -> None:
    task = given.task("q")
    made, said = group(given, task, "pf")
    inputs = WorkingSet(tasks=(task.id,), trajectories=tuple(one.id for one in made))
    ctx = make_context()
    lake.append(given.stamp, {"tasks": [task], "trajectories": made, "verdicts": said[:1]})
    before = TrlGrpo().plan(inputs, ctx).items
    lake.append(given.stamp, {"verdicts": said})
    after = TrlGrpo().plan(inputs, ctx).items
    assert before[0].ref == after[0].ref == task.id
    assert before[0].id != after[0].id


def test_an_environment_is_named_beside_its_options(
    lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path
) -> None:
    task = replace(given.task("q"), environment_json='{"use":"grid","size":3}')
    task = replace(task, id=content_id("task", "grid"))
    made, said = group(given, task, "p")
    lake.append(given.stamp, {"tasks": [task], "trajectories": made, "verdicts": said})
    ctx = make_context()
    emit(TrlGrpo(), WorkingSet(tasks=(task.id,), trajectories=(made[0].id,)), ctx)
    row = load(ctx, tmp_path)[task.id]
    assert (row["environment"], json.loads(row["environment_json"])) == ("grid", {"use": "grid", "size": 3})


@each(st.integers(1, 40), st.data())
def test_pass_at_k_is_a_probability_that_grows_with_c(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n))
    values = [pass_at(k, n, c) for c in range(n + 1)]
    assert values[0] == 0.0
    assert values[-1] == 1.0
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(values))
    assert pass_at(n + 1, n, n) is None
    assert pass_at(1, n, n // 2) == pytest.approx((n // 2) / n)
    assert 0 < curriculum_key(n, n) < curriculum_key(n, 0) < 1


def test_a_models_opinions_count_only_when_the_recipe_says_so(
    given: SimpleNamespace, lake: Lake, make_context: Callable[..., Context]
) -> None:
    task = given.task("judged by a model", "0")
    rollouts, verdicts = group(given, task, "pf", trust=Trust.MODEL)
    lake.append(given.stamp, {"tasks": [task], "trajectories": rollouts, "verdicts": verdicts})
    inputs = WorkingSet(tasks=(task.id,), trajectories=tuple(one.id for one in rollouts))
    ctx = make_context()
    for options, reason in (
        ({}, "trust_model"),
        ({"trust_inside": True}, "trust_model"),
        ({"trust_model": True}, "ok"),
    ):
        assert emit(TrlGrpo(**options), inputs, ctx)[1] == {task.id: reason}
