"""The embedded teacher: SmolLM2-135M-Instruct in this process, without a key, an account or a network.

Small and weak on purpose: good for easy, checkable tasks with many samples each. It records the exact tokens and
their log-probabilities.
"""

from pathlib import Path
from typing import ClassVar

from tasks.client.teacher import Limits, Notes, Teacher, Transport
from tasks.rollout.engine.model_files import NAME, model_dir, prepare_model


class Local(Teacher, frozen=True, kw_only=True):
    """SmolLM2-135M-Instruct through transformers, or another causal model in a local folder.

    model: a folder with a transformers model and tokenizer; empty for the embedded one. threads: processor threads
    of the engine. parallel: calls collected into one batch at most.
    """

    inert: ClassVar[frozenset[str]] = frozenset({"threads", "parallel", "name"})
    constrains: ClassVar[bool] = False

    model: str = ""
    threads: int = 2
    parallel: int = 1024
    logprobs: bool = True
    token_ids: bool = True

    def endpoint(self) -> str:
        """In this process."""
        return "local"

    def model_id(self) -> str:
        """The model's name, or the folder's."""
        return Path(self.model).name if self.model else NAME

    def revision(self) -> str | None:
        """The embedded model's source and template, as hashed into its folder's name."""
        return model_dir().name.rpartition("-")[2] if not self.model else None

    def limits(self) -> Limits:
        """All that is asked at once makes one batch; a failure of the engine is not mended by asking again."""
        return Limits(parallel=self.parallel, attempts=2, adaptive=False)

    def open(self, notes: Notes) -> Transport:
        """The engine; the model loads with the first batch."""
        from tasks.rollout.engine.batcher import EngineTransport
        from tasks.rollout.engine.local import LocalEngine

        folder = Path(self.model).expanduser() if self.model else None
        return EngineTransport(LocalEngine(lambda: folder or prepare_model(), self.model_id(), self.threads))
