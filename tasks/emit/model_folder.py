"""Where a recipe's model or tokenizer lies, and what identifies it without loading it."""

import hashlib
from pathlib import Path

from schemas.errors import UserError
from tasks.context import Context

_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json")


def model_folder(ctx: Context, given: str) -> Path:
    """The folder that a recipe names; for the empty string the embedded model's, converted if need be (about 30 s)."""
    if given:
        return ctx.path(given)
    from tasks.rollout.engine.model_files import prepare_model

    return prepare_model()


def tokenizer_digest(ctx: Context, given: str, template: str) -> str:
    """A hash of the tokenizer's files and of the template file; the embedded model is named by what it is made from."""
    state = hashlib.sha256()
    if given:
        folder = ctx.path(given)
        if not folder.is_dir():
            raise UserError(f"There is no model folder at '{folder}'.", todo='Name one with tokenizer = "DIR".')
        for name in _FILES:
            if (folder / name).is_file():
                state.update(name.encode() + b"\0" + (folder / name).read_bytes() + b"\0")
    else:
        from tasks.rollout.engine.model_files import model_dir

        state.update(model_dir().name.encode())
    if template:
        path = ctx.path(template)
        if not path.is_file():
            raise UserError(f"There is no chat template at '{path}'.", todo='Name a file with template = "FILE".')
        state.update(b"template\0" + path.read_bytes())
    return state.hexdigest()


def model_identity(ctx: Context, given: str) -> str:
    """What identifies a model without reading its weights: its configuration, tokenizer, and the weights' sizes."""
    if not given:
        return tokenizer_digest(ctx, given, "")
    folder = ctx.path(given)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"There is no model at '{folder}' (config.json is missing).", todo='Name a folder with model = "DIR".'
        )
    state = hashlib.sha256((folder / "config.json").read_bytes())
    state.update(tokenizer_digest(ctx, given, "").encode())
    for weights in sorted(folder.glob("*.safetensors")):
        state.update(f"{weights.name}:{weights.stat().st_size}".encode())
        with weights.open("rb") as handle:
            state.update(handle.read(1 << 20))
    return state.hexdigest()
