"""A scripted HTTP server, tasks in a real lake, and harness entries run through the real stage runner."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.ids import content_id
from schemas.task import Message, Task, VerifierSpec


@pytest.fixture
def put_tasks(store: Callable[..., None]) -> Callable[..., tuple[str, ...]]:
    """Puts n tasks of a kind into the lake and gives their ids."""

    def put(n: int = 1, kind: str = "arithmetic", **more: Any) -> tuple[str, ...]:
        tasks = [
            Task(
                id=content_id("task", kind, number, sorted(more)),
                kind=kind,
                prompt=(Message(role="user", content=f"{kind} question {number}"),),
                verifier=VerifierSpec(use="reasoning_gym"),
                **more,
            )
            for number in range(n)
        ]
        store(tasks=tasks)
        return tuple(task.id for task in tasks)

    return put


@pytest.fixture
def entry(peer: Any) -> Callable[..., dict[str, Any]]:
    """A harness entry whose teacher is the scripted server."""

    def make(use: str, teacher: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        who = {"use": "openai", "base_url": peer.url, "model": "m", "timeout_s": 5.0, "parallel": 8, **(teacher or {})}
        return {"use": use, "teachers": [who], **options}

    return make
