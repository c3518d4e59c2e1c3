"""GRPO on real RL shards: scored by our own verifiers through the shard's columns; DPO shards in TRL as they are."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import datasets

from schemas.rows import Pair
from schemas.task import Task
from tasks.context import Context
from tasks.emit.exporter.trl_dpo import TrlDpo
from tasks.emit.exporter.trl_grpo import TrlGrpo
from tasks.emit.offline import offline
from tasks.operator import WorkingSet
from tasks.train.rewards import verified_reward
from tasks.train.trainer.grpo import Grpo
from warehouse.lake import Lake

Make = Callable[..., Context]


def sums(given: SimpleNamespace, count: int) -> list[Task]:
    tasks = []
    for i in range(count):
        entry = {"question": f"{i} + {i}", "answer": str(2 * i), "metadata": {}}
        spec = json.dumps({"dataset": "chain_sum", "entry": entry})
        tasks.append(given.task(f"What is {i} + {i}?", str(2 * i), "reasoning_gym", spec, "arithmetic"))
    return tasks


def shards(lake: Lake, given: SimpleNamespace, ctx: Context, tasks: list[Task]) -> WorkingSet:
    made = [given.chat(t.prompt[0].content, str(k), task=t.id, sample=k) for t in tasks for k in range(2)]
    said = [given.verdict(one, one.sample_index == 0, "reasoning_gym") for one in made]
    lake.append(given.stamp, {"tasks": tasks, "trajectories": made, "verdicts": said})
    inputs = WorkingSet(tasks=tuple(t.id for t in tasks), trajectories=tuple(one.id for one in made))
    exporter = TrlGrpo(name="rl")
    exporter.run(exporter.plan(inputs, ctx).items, ctx)
    return inputs


def test_two_steps_of_grpo(lake: Lake, given: SimpleNamespace, make_context: Make, tiny_model: Path) -> None:
    ctx = make_context(emit=({"use": "trl_grpo", "name": "rl"},))
    said: list[str] = []
    ctx.say = said.append
    inputs = shards(lake, given, ctx, sums(given, 3))
    trainer = Grpo(shards="rl", model=str(tiny_model), generations=4, max_tokens=8)
    items = trainer.plan(inputs, ctx).items
    (outcome,) = trainer.run(items, ctx).outcomes
    made = outcome.evidence
    assert made["steps"] == 2
    assert len(made["losses"]) == len(made["rewards"]) == 2
    assert all(0 <= reward <= 1 for reward in made["rewards"])
    assert sum(count for name, count in made["facts"].items() if name.startswith("verdicts_")) == 8
    assert made["tokens"] > made["trained_tokens"] > 0
    assert trainer.present(items, ctx)
    assert [text.startswith("train grpo: step") for text in said] == [True, True]


def test_the_reward_is_the_verifiers_verdict(
    lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path
) -> None:
    ctx = make_context()
    shards(lake, given, ctx, sums(given, 3))
    rows = list(datasets.load_dataset(str(ctx.out / "rl"), cache_dir=str(tmp_path / "cache"))["train"])
    seen: Counter[str] = Counter()
    reward = verified_reward(ctx, seen)
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}
    answers = [[{"role": "assistant", "content": f"So <answer>{row['ground_truth']}</answer>"}] for row in rows]
    assert reward([row["prompt"] for row in rows], answers, **columns) == [1.0, 1.0, 1.0]
    wrong = [[{"role": "assistant", "content": "<answer>77</answer>"}] for _ in rows]
    assert max(r for r in reward([row["prompt"] for row in rows], wrong, **columns) if r is not None) < 1
    assert seen["pass"] == 3
    columns["verifier_spec"][1] = "{}"
    assert reward([row["prompt"] for row in rows], answers, **columns) == [1.0, None, 1.0]
    assert seen["bad_spec"] == 1


def test_mixed_tasks_come_first(lake: Lake, given: SimpleNamespace, make_context: Make, tmp_path: Path) -> None:
    rows = datasets.Dataset.from_list(
        [
            {"id": "a", "pass_at_1": 1.0, "curriculum_key": 0.1},
            {"id": "b", "pass_at_1": 0.5, "curriculum_key": 0.5},
            {"id": "c", "pass_at_1": 0.0, "curriculum_key": 0.9},
            {"id": "d", "pass_at_1": 0.75, "curriculum_key": 0.3},
        ]
    )
    assert Grpo(shards="x")._ordered(rows) == [3, 1, 0, 2]
    assert Grpo(shards="x", order="curriculum")._ordered(rows) == [0, 3, 1, 2]
    assert Grpo(shards="x", order="given")._ordered(rows) == [0, 1, 2, 3]


def test_one_step_of_dpo_takes_the_rows_as_they_are(
    lake: Lake, given: SimpleNamespace, make_context: Make, tiny_model: Path, tmp_path: Path
) -> None:
    pairs = [
        Pair(
            id=f"{i:032x}",
            kind="preference",
            prompt_json=json.dumps([{"role": "user", "content": f"What is {i}?"}]),
            chosen_json=json.dumps([{"role": "assistant", "content": "yes"}]),
            rejected_json=json.dumps([{"role": "assistant", "content": "no no"}]),
        )
        for i in range(4)
    ]
    lake.append(given.stamp, {"pairs": pairs})
    ctx = make_context()
    exporter = TrlDpo()
    exporter.run(exporter.plan(WorkingSet(pairs=tuple(p.id for p in pairs)), ctx).items, ctx)
    offline()
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import DPOConfig, DPOTrainer

    config = DPOConfig(
        output_dir=str(tmp_path / "dpo"),
        max_steps=1,
        per_device_train_batch_size=2,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
    )
    trainer = DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(str(tiny_model)),
        args=config,
        processing_class=AutoTokenizer.from_pretrained(str(tiny_model)),
        train_dataset=datasets.load_dataset(str(ctx.out / "trl_dpo"), cache_dir=str(tmp_path / "cache"))["train"],
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 1
    assert abs(losses[0] - 0.693) < 0.01
