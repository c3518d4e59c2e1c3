"""A provider's batch API, spoken by a real HTTP server: submitted once, found again after a kill."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tasks.client.request import CallFailure, Cause, ModelReply

ROOT = Path(__file__).resolve().parents[3]


class Provider:
    """Files and batches in memory. seconds: how long a batch takes; broken: custom ids' positions that fail."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: list[dict[str, Any]] = []
        self.seconds, self.broken, self.status = 0.0, frozenset[int](), "completed"
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    async def _start(self) -> str:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._one)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        name = f"file-{len(self.files)}"
        self.files[name] = form["file"].file.read()
        return web.json_response({"id": name, "object": "file", "purpose": "batch"})

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        batch = {
            "id": f"batch-{len(self.batches)}", "object": "batch", "endpoint": asked["endpoint"],
            "input_file_id": asked["input_file_id"], "completion_window": "24h", "created_at": 1,
            "metadata": asked["metadata"], "status": "in_progress", "ready": time.monotonic() + self.seconds,
        }  # fmt: skip
        self.batches.append(batch)
        return web.json_response(self._shown(batch))

    def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["status"] == "in_progress" and time.monotonic() >= batch["ready"]:
            lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
            out = [self._answer(number, line) for number, line in enumerate(lines)]
            batch["status"], batch["output_file_id"] = self.status, f"out-{batch['id']}"
            self.files[batch["output_file_id"]] = "\n".join(json.dumps(line) for line in out[::-1]).encode()
        return {key: value for key, value in batch.items() if key != "ready"}

    def _answer(self, number: int, line: dict[str, Any]) -> dict[str, Any]:
        if number in self.broken:
            return {"custom_id": line["custom_id"], "response": {"status_code": 400, "body": {"error": "bad"}}}
        text = f"to {line['body']['messages'][0]['content']}"
        body = {
            "model": "m", "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 2},
        }  # fmt: skip
        return {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}}

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._shown(b) for b in self.batches], "has_more": False})

    async def _one(self, request: web.Request) -> web.Response:
        found = next(batch for batch in self.batches if batch["id"] == request.match_info["id"])
        return web.json_response(self._shown(found))

    async def _content(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["id"]])

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


def test_answers_come_home_in_order_and_are_recorded(provider, teacher, ask, make_client):
    client, who = make_client(), teacher(base_url=provider.url, batch=True, poll_s=0.05)
    provider.seconds = 0.2
    replies = client.complete_all(who, ask(12, seed=1))
    assert [r.text for r in replies] == [f"to question {i}" for i in range(12)]
    assert client.counters()["completion_tokens"] == 24
    assert all(r.cached for r in make_client().complete_all(who, ask(12, seed=1)))
    assert len(provider.batches) == 1
    assert set(provider.batches[0]["metadata"]) == {"gristmill_batch"}


def test_what_the_hot_path_recorded_is_not_sent_in_a_batch(provider, peer, teacher, ask, make_client):
    """The way it is sent does not shape the answer; the address does."""
    who = teacher(base_url=provider.url)
    assert who.identity() == teacher(base_url=provider.url, batch=True).identity()


def test_a_bad_request_in_a_batch_is_a_record(provider, teacher, ask, make_client):
    provider.broken = frozenset({1})
    first, second, third = make_client().complete_all(teacher(base_url=provider.url, batch=True, poll_s=0.05), ask(3))
    assert isinstance(first, ModelReply) and isinstance(third, ModelReply)
    assert isinstance(second, CallFailure)
    assert second.cause is Cause.REJECTED


def test_an_expired_batch_is_submitted_again_for_what_is_missing(provider, teacher, ask, make_client):
    provider.status, provider.broken = "expired", frozenset({0, 1})
    who = teacher(base_url=provider.url, batch=True, poll_s=0.05, attempts=1)
    results = make_client().complete_all(who, ask(4))
    assert [isinstance(r, ModelReply) for r in results] == [False, False, True, True]
    provider.status, provider.broken = "completed", frozenset()
    assert all(isinstance(r, ModelReply) for r in make_client().complete_all(who, ask(4)))
    assert len(provider.files[provider.batches[-1]["input_file_id"]].splitlines()) == 2


PAYER = """
import sys
from types import SimpleNamespace
from schemas.recipe import Budget
from tasks.client.client import ModelClient
from tasks.client.request import ModelReply, ModelRequest
from tasks.rollout.teacher.openai import OpenAI
from warehouse.address import resolve

client = ModelClient.for_lake(SimpleNamespace(where=resolve(sys.argv[1])), Budget())
teacher = OpenAI(base_url=sys.argv[2], model="m", batch=True, poll_s=0.05)
asked = [ModelRequest(messages=({"role": "user", "content": f"q{i}"},), seed=i) for i in range(9)]
print(sum(isinstance(reply, ModelReply) for reply in client.complete_all(teacher, asked)))
client.close()
"""


def test_killed_while_a_batch_is_under_way(provider, tmp_path):
    (tmp_path / "lake").mkdir()
    command = [sys.executable, "-c", PAYER, str(tmp_path / "lake"), provider.url]
    start = {"stdout": subprocess.PIPE, "text": True, "cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    provider.seconds = 3.0
    killed = subprocess.Popen(command, **start)
    while not provider.batches and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    out, _ = subprocess.Popen(command, **start).communicate(timeout=60)
    assert int(out) == 9
    assert len(provider.batches) == 1
