"""What the TRL trainers share: quiet, offline set-up, model and adapters, step figures, the saved checkpoint.

Everything heavy is imported inside the functions, after the environment that keeps it off the network is set.
"""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import MissingExtra, UserError
from tasks.context import Context
from tasks.emit.offline import offline
from tasks.emit.template import choose_template


class Session(NamedTuple):
    """A loaded model with its tokenizer; `adapters` is peft's configuration or None; `saved` the folder's dtype."""

    model: Any
    tokenizer: Any
    adapters: Any
    saved: Any


def open_session(folder: Path, *, lora: bool, rank: int, dtype: str, seed: int) -> Session:
    """Loads model and tokenizer from a folder; MissingExtra where the train extra is not installed."""
    offline()
    try:
        import datasets
        import transformers
        import trl  # noqa: F401 - its absence is told before anything is loaded
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "trl", "train") from error
    if not (folder / "config.json").is_file():
        raise UserError(f"There is no model at '{folder}' (config.json is missing).")
    # TRL sets an argument under a name that transformers is about to change; nothing a user can do about it.
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    transformers.set_seed(seed)
    kind = _dtype(dtype)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    tokenizer.chat_template = choose_template(tokenizer)
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), local_files_only=True, dtype=kind)
    saved = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True).dtype
    return Session(model, tokenizer, _adapters(rank) if lora else None, saved)


def _dtype(name: str) -> Any:
    """The dtype to train in; auto on a CPU is float32: bfloat16 took 1.6 times as long and rounds updates away."""
    import torch

    if name == "auto":
        return "auto" if torch.cuda.is_available() else torch.float32
    kind = getattr(torch, name, None)
    if not isinstance(kind, torch.dtype):
        raise UserError(f"dtype = '{name}' is not a torch dtype.", "Known: auto, float32, bfloat16, float16.")
    return kind


def _adapters(rank: int) -> Any:
    try:
        from peft import LoraConfig
    except ModuleNotFoundError as error:
        raise MissingExtra("peft", "train") from error
    return LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")


def common_arguments(out: Path, *, steps: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """Arguments of every TRL configuration: nothing reported, nothing saved on the way, one log a step."""
    import torch

    gpu = torch.cuda.is_available()
    return {
        "output_dir": str(out),
        "max_steps": steps,
        "learning_rate": learning_rate,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "push_to_hub": False,
        "disable_tqdm": True,
        "seed": seed % (2**31),
        "data_seed": seed % (2**31),
        "use_cpu": not gpu,
        "bf16": gpu,
        "gradient_checkpointing": gpu,
        "dataloader_pin_memory": gpu,
    }


def follow(trainer: Any, ctx: Context, what: str) -> None:
    """Sends each step's figures to the run's progress instead of standard output."""
    from transformers import TrainerCallback
    from transformers.trainer_callback import PrinterCallback

    class Tell(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
            if logs and "loss" in logs:
                more = f", reward {float(logs['reward']):.3f}" if "reward" in logs else ""
                ctx.say(f"{what}: step {state.global_step} of {state.max_steps}, loss {float(logs['loss']):.4f}{more}")

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Tell())


def figures(trainer: Any, name: str) -> tuple[float, ...]:
    """One value per step from the trainer's log."""
    return tuple(float(entry[name]) for entry in trainer.state.log_history if name in entry and "loss" in entry)


def save(trainer: Any, session: Session, out: Path) -> None:
    """Writes a checkpoint that loads by itself, adapters merged; the tokenizer keeps the template it trained with."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    if session.adapters is not None:
        model = model.merge_and_unload()
    if session.saved is not None:
        model = model.to(session.saved)
    model.save_pretrained(str(out))
    session.tokenizer.save_pretrained(str(out))


def answer(out: Path, prompt_ids: list[int], tokens: int = 24) -> str:
    """What the checkpoint, loaded from the disk, says after a prompt: the proof that it loads and generates."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(out), local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(str(out), local_files_only=True, dtype=_dtype("auto"))
    prompt = torch.tensor([prompt_ids[-512:]])
    with torch.inference_mode():
        made = model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, do_sample=False
        )
    return str(tokenizer.decode(made[0][prompt.shape[1] :], skip_special_tokens=True))


def load_rows(shards: Path, cache: Path) -> Any:
    """The shards as a dataset; the cache lies in `cache` and goes with it."""
    from datasets import load_dataset

    return load_dataset(str(shards), split="train", cache_dir=str(cache))
