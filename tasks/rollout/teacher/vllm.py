"""vLLM's offline engine in a child process of the environment that `python` belongs to: no server, no port."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tasks.client.teacher import Limits, Notes, Teacher, Transport
from tasks.client.token_identity import tokenizer_sha256
from tasks.rollout.engine.model_files import NAME, model_dir, prepare_model


class Vllm(Teacher, frozen=True, kw_only=True):
    """A model in a local folder (or, empty, the embedded one), sampled by vLLM.

    python: the interpreter with vLLM, made from requirements-vllm.lock; empty for the running one. model: the
    folder. dtype, max_model_len and engine_args go to vllm.LLM. kv_cache_gb: memory for its key-value cache.
    parallel: calls collected into one batch at most.
    """

    inert: ClassVar[frozenset[str]] = frozenset({"python", "kv_cache_gb", "parallel", "name"})

    python: str = ""
    model: str = ""
    dtype: str = "bfloat16"
    max_model_len: int = 2048
    enforce_eager: bool = True
    kv_cache_gb: int = 1
    engine_args: dict[str, Any] = {}
    parallel: int = 1024
    logprobs: bool = True
    token_ids: bool = True

    def endpoint(self) -> str:
        """A child of this process."""
        return "vllm"

    def model_id(self) -> str:
        """The model's name, or the folder's."""
        return Path(self.model).name if self.model else NAME

    def revision(self) -> str | None:
        """The embedded model's source and template, as hashed into its folder's name."""
        return model_dir().name.rpartition("-")[2] if not self.model else None

    def extra(self) -> Mapping[str, Any]:
        """What the engine is started with shapes its answers."""
        return {"dtype": self.dtype, "max_model_len": self.max_model_len, **self.engine_args}

    def limits(self) -> Limits:
        """All that is asked at once makes one batch; a child that died is started once more."""
        return Limits(parallel=self.parallel, attempts=2, adaptive=False)

    def open(self, notes: Notes) -> Transport:
        """The engine; the child starts with the first batch (about 30 to 50 s)."""
        from tasks.rollout.engine.batcher import EngineTransport
        from tasks.rollout.engine.vllm_child import VllmEngine

        folder = Path(self.model).expanduser() if self.model else prepare_model()
        tokenizer = folder / "tokenizer.json"
        digest = tokenizer_sha256(tokenizer.read_text(encoding="utf-8")) if tokenizer.is_file() else None
        options = {
            "model": str(folder),
            "dtype": self.dtype,
            "max_model_len": self.max_model_len,
            "enforce_eager": self.enforce_eager,
            **self.engine_args,
        }
        return EngineTransport(VllmEngine(self.python or sys.executable, lambda: options, self.kv_cache_gb, digest))
