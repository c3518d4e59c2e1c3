"""Model calls against a zero-latency server on loopback, 256 in flight: requests per second of CPU time.

Ours does everything the product does on a call: key, claim, lane, breaker, budget, send, parse, record durably
(group commit, fsync). The peers only send and parse: raw aiohttp, and the vendor's SDK. All in turn, five runs,
median, CPU time of this process (the server is another one and does not count).

    python benchmarks/client.py [--json] [--runs N] [--requests N]
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

IN_FLIGHT = 256
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The answer is forty-two, as it always was. " * 8},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 60, "completion_tokens": 80, "total_tokens": 140},
    }
).encode()
PROMPT = "Solve the following task step by step and give the final answer at the end. " * 4


class Server(asyncio.Protocol):
    """Answers every request at once; parses no more than where it ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new connection."""
        self.transport, self.data = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answers each whole request."""
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            head = self.data[:end].lower()
            size = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
            if len(self.data) < end + 4 + size:
                return
            self.data = self.data[end + 4 + size :]
            head_out = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)
            self.transport.write(head_out + ANSWER)  # type: ignore[attr-defined]


async def serve() -> None:
    """Serves on a free port, printed first, until standard input closes."""
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def prompts(count: int, run: int) -> list[list[dict[str, str]]]:
    """Different messages for every request of every run."""
    return [[{"role": "user", "content": f"{PROMPT} Run {run}, number {number}."}] for number in range(count)]


async def pooled(count: int, one: Callable[[int], Any]) -> None:
    """`count` calls of `one`, 256 at a time."""
    todo = iter(range(count))

    async def work() -> None:
        for number in todo:
            await one(number)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


def ours(url: str, count: int, run: int) -> None:
    """The product's client with a fresh request cache in a folder."""
    from schemas.recipe import Budget
    from tasks.client.client import ModelClient
    from tasks.client.request import ModelReply, ModelRequest
    from tasks.rollout.teacher.openai import OpenAI
    from warehouse.address import resolve

    with tempfile.TemporaryDirectory() as folder:
        where = SimpleNamespace(where=resolve(folder))
        client = ModelClient.for_lake(where, Budget(tokens=10**9))  # type: ignore[arg-type]
        teacher = OpenAI(base_url=url, model="m", parallel=IN_FLIGHT)
        requests = [
            ModelRequest(messages=messages, item_id=str(number), seed=number, max_tokens=256)
            for number, messages in enumerate(prompts(count, run))
        ]
        replies = client.complete_all(teacher, requests)
        if not all(isinstance(reply, ModelReply) for reply in replies) or client.cache.count() != count:
            raise RuntimeError("not every answer was recorded")
        client.close()


def raw_aiohttp(url: str, count: int, run: int) -> None:
    """aiohttp alone: one session, JSON in, JSON out, nothing kept."""
    import aiohttp

    async def main() -> None:
        chats = prompts(count, run)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:

            async def one(number: int) -> None:
                body = {"model": "m", "messages": chats[number], "seed": number, "max_tokens": 256}
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    json.loads(await response.read())["choices"][0]["message"]["content"]

            await pooled(count, one)

    asyncio.run(main())


def openai_sdk(url: str, count: int, run: int) -> None:
    """The vendor's SDK, through aiohttp where its transport is installed."""
    import openai

    async def main() -> None:
        chats = prompts(count, run)
        try:
            http: Any = openai.DefaultAioHttpClient(timeout=60)
        except RuntimeError:
            http = openai.DefaultAsyncHttpxClient(timeout=60)
        async with openai.AsyncOpenAI(base_url=url, api_key="none", http_client=http) as client:

            async def one(number: int) -> None:
                answer = await client.chat.completions.create(
                    model="m",
                    messages=chats[number],
                    seed=number,
                    max_tokens=256,  # type: ignore[arg-type]
                )
                answer.choices[0].message.content  # noqa: B018 - read, as every caller does

            await pooled(count, one)

    asyncio.run(main())


def measured(work: Callable[[str, int, int], None], url: str, count: int, run: int) -> float:
    """Requests per second of CPU time, this process and children that ended."""

    def spent() -> float:
        return sum(
            u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )

    before = spent()
    work(url, count, run)
    return count / (spent() - before)


def main() -> None:
    """Prints the figure; with --json as one line for programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"  # type: ignore[union-attr]
        contestants = {"ours": ours, "aiohttp": raw_aiohttp, "openai": openai_sdk}
        for work in contestants.values():
            work(url, 300, -1)  # imports and first connections do not count
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        for run in range(options.runs):
            for name, work in contestants.items():
                count = options.requests if name != "openai" else options.requests // 4
                rates[name].append(measured(work, url, count, run))
    finally:
        server.stdin.close()  # type: ignore[union-attr]
        server.wait(10)
    median = {name: round(statistics.median(values), 1) for name, values in rates.items()}
    figure = median.pop("ours")
    result = {
        "figure": figure,
        "unit": "requests/s of CPU time",
        "peers": median,
        "ratio": {name: round(figure / value, 3) for name, value in median.items()},
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"client: {figure:,.0f} {result['unit']}, recorded durably, {IN_FLIGHT} in flight (target 3,000)")
    for name, value in median.items():
        print(f"  {name}: {value:,.0f}, ratio {figure / value:.2f}")


if __name__ == "__main__":
    main()
