"""SFT on real shards with a tiny random model: loss on the policy's tokens, a checkpoint that loads and speaks."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from schemas.errors import UserError
from schemas.vocabulary import Source
from tasks.context import Context
from tasks.emit.exporter.tokens import TokensExporter
from tasks.emit.exporter.trl_sft import TrlSft
from tasks.operator import WorkingSet
from tasks.train.trainer.grpo import Grpo
from tasks.train.trainer.sft import Sft
from warehouse.lake import Lake

Make = Callable[..., Context]


def shards(lake: Lake, given: SimpleNamespace, ctx: Context, exporter: TokensExporter | TrlSft) -> WorkingSet:
    made = [given.chat(f"What is {i} and {i}?", f"The answer is {2 * i}.") for i in range(6)]
    made.append(
        given.trajectory(
            given.say(Source.USER, "add"),
            given.call_step(1, "add", '{"a":1}', "2"),
            given.say(Source.AGENT, "two"),
            tools=[given.tool_set("add", a="integer")],
        )
    )
    lake.append(given.stamp, {"trajectories": made})
    inputs = WorkingSet(trajectories=tuple(one.id for one in made))
    exporter.run(exporter.plan(inputs, ctx).items, ctx)
    return inputs


@pytest.mark.parametrize("form", ["tokens", "trl_sft"])
def test_one_recipe_entry_trains_once(
    form: str, lake: Lake, given: SimpleNamespace, make_context: Make, tiny_model: Path
) -> None:
    exporter = TokensExporter(tokenizer=str(tiny_model)) if form == "tokens" else TrlSft()
    ctx = make_context(emit=({"use": form},))
    inputs = shards(lake, given, ctx, exporter)
    trainer = Sft(shards=form, model=str(tiny_model), max_steps=2, rows_per_step=2, lora=form == "tokens")
    items = trainer.plan(inputs, ctx).items
    assert not trainer.present(items, ctx)
    (outcome,) = trainer.run(items, ctx).outcomes
    made = outcome.evidence
    assert len(made["losses"]) == made["steps"] == 2
    assert all(4 < loss < 8 for loss in made["losses"])
    assert 0.3 < made["masked"] < 0.95
    assert made["rows"] == 7
    assert made["trained_tokens"] < made["tokens"]
    assert isinstance(made["sample"], str)
    report = json.loads((ctx.out / "checkpoints" / "sft" / "training.json").read_text())
    assert report["losses"] == list(made["losses"])
    assert trainer.plan(inputs, ctx).items == items
    assert trainer.present(items, ctx)
    (ctx.out / "checkpoints" / "sft" / "model.safetensors").unlink()
    assert not trainer.present(items, ctx)


def test_the_masks_of_both_shard_formats_agree(
    lake: Lake, given: SimpleNamespace, make_context: Make, tiny_model: Path
) -> None:
    ctx = make_context(emit=({"use": "tokens"}, {"use": "trl_sft"}))
    shards(lake, given, ctx, TokensExporter(tokenizer=str(tiny_model)))
    shards(lake, given, ctx, TrlSft())
    counted = []
    for form in ("tokens", "trl_sft"):
        trainer = Sft(shards=str(ctx.out / form), model=str(tiny_model), max_steps=1, lora=False, name=form)
        (item,) = trainer.plan(WorkingSet(), ctx).items
        (outcome,) = trainer.run([item], ctx).outcomes
        counted.append((outcome.evidence["tokens"], outcome.evidence["trained_tokens"]))
    (tokens, ours), (rendered, theirs) = counted
    assert tokens == rendered
    # TRL's Qwen3 template marks the line feed behind each of the 8 turns; we train the stop token and no more.
    assert theirs - ours == 8


def test_rows_that_are_too_long_are_counted_never_cut(
    lake: Lake, given: SimpleNamespace, make_context: Make, tiny_model: Path
) -> None:
    ctx = make_context(emit=({"use": "tokens"},))
    inputs = shards(lake, given, ctx, TokensExporter(tokenizer=str(tiny_model)))
    trainer = Sft(shards="tokens", model=str(tiny_model), max_steps=1, max_length=100, lora=False)
    (outcome,) = trainer.run(trainer.plan(inputs, ctx).items, ctx).outcomes
    assert outcome.evidence["left_out"] == {"too_long": 1}
    assert outcome.evidence["rows"] == 6
    short = Sft(shards="tokens", model=str(tiny_model), max_steps=1, max_length=3)
    with pytest.raises(UserError, match="longer than 3"):
        short.run(short.plan(inputs, ctx).items, ctx)


def test_mistakes_are_named(lake: Lake, given: SimpleNamespace, make_context: Make, tiny_model: Path) -> None:
    ctx = make_context(emit=({"use": "trl_sft", "name": "sft"},))
    with pytest.raises(UserError, match="Known: sft"):
        Sft(shards="stf").plan(WorkingSet(), ctx)
    assert Sft(shards="sft").plan(WorkingSet(), ctx).items == ()
    with pytest.raises(UserError, match=r"manifest\.json is missing"):
        Sft(shards=str(ctx.out)).plan(WorkingSet(), ctx)
    shards(lake, given, ctx, TrlSft(name="sft"))
    with pytest.raises(UserError, match="holds trl_sft rows"):
        Grpo(shards="sft").plan(WorkingSet(), ctx)
    shard = ctx.out / "sft" / "data" / "train-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(UserError, match="damaged"):
        Sft(shards="sft").plan(WorkingSet(), ctx)
