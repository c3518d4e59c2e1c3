"""What an operator may use while it works: the lake, the model client, the sandbox, the recipe.

Heavy parts are built on first use and shared by all operators of the process; `close` ends them.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.recipe import Recipe
from schemas.vocabulary import Kind
from tasks.plugin import Plugin
from tasks.registry import build
from warehouse.lake import Lake

if TYPE_CHECKING:
    from tasks.client.client import ModelClient
    from tasks.sandbox.sandbox import Sandbox
    from warehouse.judgements import JudgementCache


class Context:
    """One run of one recipe in one process.

    recipe_dir: relative paths in a recipe are relative to it. out: the folder for shards and checkpoints.
    limit: at most so many items per operator (preview), None for all.
    """

    def __init__(
        self,
        recipe: Recipe,
        lake: Lake,
        run_id: str,
        recipe_dir: Path,
        out: Path,
        *,
        limit: int | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.recipe, self.lake, self.run_id = recipe, lake, run_id
        self.recipe_dir, self.out, self.limit, self.say = recipe_dir, out, limit, say
        self._lock = threading.RLock()
        self._client: ModelClient | None = None
        self._sandbox: Sandbox | None = None
        self._judgements: JudgementCache | None = None
        self._plugins: dict[str, Plugin] = {}

    def path(self, given: str) -> Path:
        """A path named in the recipe."""
        path = Path(given).expanduser()
        return path if path.is_absolute() else self.recipe_dir / path

    def build(self, kind: Kind, entry: dict[str, Any]) -> Plugin:
        """The plug-in of a nested entry, built once per process, so that a local model is loaded once."""
        key = f"{kind}:{sorted(entry.items())!r}"
        with self._lock:
            if key not in self._plugins:
                self._plugins[key] = build(kind, entry)
            return self._plugins[key]

    @property
    def client(self) -> "ModelClient":
        """The one model client of the process."""
        with self._lock:
            if self._client is None:
                from tasks.client.client import ModelClient

                self._client = ModelClient.for_lake(self.lake, self.recipe.budget, self.say)
            return self._client

    @property
    def sandbox(self) -> "Sandbox":
        """The one sandbox service of the process; Unavailable where untrusted code cannot be contained."""
        with self._lock:
            if self._sandbox is None:
                from tasks.sandbox.sandbox import Sandbox

                self._sandbox = Sandbox.start()
            return self._sandbox

    @property
    def judgements(self) -> "JudgementCache | None":
        """The record of judgements that were executed before; None where there is no lake to write to."""
        if self.lake is None or self.lake.how.read_only:
            return None
        with self._lock:
            if self._judgements is None:
                from warehouse.judgements import JudgementCache

                self._judgements = JudgementCache.for_lake(self.lake)
            return self._judgements

    def calls(self) -> dict[str, float]:
        """What the model client did in this run: calls, cached, tokens, US dollars; empty when no model was used."""
        return self._client.counters() if self._client is not None else {}

    def close(self) -> None:
        """Ends the client, the sandbox and the record of judgements; the lake belongs to the caller."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None
            if self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None
            if self._judgements is not None:
                self._judgements.close()
                self._judgements = None
