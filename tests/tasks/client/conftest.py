"""A scripted HTTP server and clients that talk to it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.recipe import Budget
from tasks.client.client import ModelClient
from tasks.client.request import ModelRequest
from tasks.rollout.teacher.openai import OpenAI
from warehouse.address import resolve


@pytest.fixture
def teacher(peer: Any) -> Callable[..., OpenAI]:
    return lambda **options: OpenAI(**{"base_url": peer.url, "model": "m", "timeout_s": 5.0, **options})


@pytest.fixture
def ask() -> Callable[..., list[ModelRequest]]:
    """n different requests."""

    def make(n: int = 1, **options: Any) -> list[ModelRequest]:
        return [
            ModelRequest(messages=({"role": "user", "content": f"question {i}"},), item_id=f"item{i}", **options)
            for i in range(n)
        ]

    return make


@pytest.fixture
def lake(tmp_path: Path) -> SimpleNamespace:
    """Where a lake would lie. The request cache is a file beside it; making the whole lake takes seconds."""
    (tmp_path / "lake").mkdir()
    return SimpleNamespace(where=resolve(tmp_path / "lake"))


@pytest.fixture
def make_client(lake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModelClient]]:
    """A client over the test's lake; `said` on it holds what it told people. Backoff is shortened."""
    monkeypatch.setattr("tasks.client.desk._BACKOFF_S", 0.01)
    clients: list[ModelClient] = []

    def make(**budget: Any) -> ModelClient:
        said: list[str] = []
        client = ModelClient.for_lake(lake, Budget(**budget), said.append)
        client.said = said  # type: ignore[attr-defined]
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()
