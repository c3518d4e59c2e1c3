"""A real HTTP server on loopback whose answers each test scripts: for tests of calls that go wrong.

Loaded by path from the conftests that need it (tests are no packages).
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Behaviour = Callable[[web.Request, int], Awaitable[web.StreamResponse]]


def completion(text: Any = "ok", **more: Any) -> dict[str, Any]:
    """A chat completion's body; `message` replaces the message, other names the body's or the choice's fields."""
    choice = {
        "index": 0,
        "message": more.pop("message", {"role": "assistant", "content": text}),
        "finish_reason": more.pop("finish_reason", "stop"),
    }
    usage = more.pop("usage", {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8})
    return {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage, **more}


class Peer:
    """The server. behave: what to do with request number n (from 0); bodies: what was received."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.in_flight = self.most_in_flight = 0
        self.behave: Behaviour = self.ok
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    @staticmethod
    async def ok(request: web.Request, number: int) -> web.StreamResponse:
        """A plain answer that names its number."""
        return web.json_response(completion(f"answer {number}"))

    def script(self, *behaviours: Behaviour) -> None:
        """Request n gets behaviour n; those after the last get the last."""

        async def behave(request: web.Request, number: int) -> web.StreamResponse:
            return await behaviours[min(number, len(behaviours) - 1)](request, number)

        self.behave = behave

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        number = len(self.bodies)
        self.bodies.append(json.loads(await request.read()))
        self.headers.append(dict(request.headers))
        self.times.append(self._loop.time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.behave(request, number)
        finally:
            self.in_flight -= 1

    async def _start(self) -> str:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


def reply(body: Any, status: int = 200, **headers: str) -> Behaviour:
    """A behaviour: this body (a dict becomes JSON, text HTML, bytes as they are)."""

    async def behave(request: web.Request, number: int) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, bytes):
            return web.Response(body=body, status=status, headers=named, content_type="application/json")
        if isinstance(body, str):
            return web.Response(text=body, status=status, headers=named, content_type="text/html")
        return web.json_response(body, status=status, headers=named)

    return behave
