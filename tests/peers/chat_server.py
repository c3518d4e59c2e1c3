"""A small OpenAI-compatible chat server on loopback for tests: real HTTP, answers that depend on the request alone.

    python chat_server.py PORT LOG [DELAY_S]

It solves about half of what it is asked (by a hash of messages and seed): sums and products in the prompt, and the
programs that ship with Gristmill. Every answered request is one line in LOG, written before the answer is sent, so
that a test can count what was paid for. It ends when its standard input closes.
"""

import asyncio
import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path

from aiohttp import web

PROGRAMS = Path(__file__).resolve().parents[2] / "tasks" / "synthesize" / "programs"
GOLD = {
    program["entry"]: program["gold"].strip()
    for program in (tomllib.loads(file.read_text(encoding="utf-8")) for file in PROGRAMS.glob("*.toml"))
}


def answer(messages: list[dict[str, str]], seed: object) -> str:
    """The answer to a chat: right or wrong by the parity of a hash."""
    told = json.dumps([messages, seed], sort_keys=True)
    right = hashlib.sha256(told.encode()).digest()[0] % 2 == 0
    text = next(m["content"] for m in reversed(messages) if m["role"] == "user")
    first = messages[0]["content"] if messages[0]["role"] == "user" else messages[1]["content"]
    name = next((entry for entry in GOLD if re.search(rf"\bdef {entry}\(", first)), None)
    if name:
        body = GOLD[name] if right else re.sub(r":\n.*", ":\n    return None", GOLD[name], count=1, flags=re.DOTALL)
        return f"Here it is.\n```python\n{body}\n```"
    terms = re.search(r"(-?\d+)\s*([-+*/×])\s*(-?\d+)", text)
    if not terms:
        return "I do not know."
    a, sign, b = int(terms[1]), terms[2], int(terms[3])
    value = a + b if sign == "+" else a - b if sign == "-" else a * b if sign in "*×" else a // b if b else 0
    return str(value if right else value + 1)


async def serve(port: int, log: Path, delay: float) -> None:
    """Serves until standard input closes."""

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        await asyncio.sleep(delay)
        text = answer(body["messages"], body.get("seed"))
        # An endpoint that says back what it was called with: no key of a user's may come to rest anywhere.
        if "Authorization" in request.headers:
            text += f"\ncalled with {request.headers['Authorization']}"
        with log.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"messages": body["messages"], "seed": body.get("seed")}) + "\n")
        usage = {"prompt_tokens": 10, "completion_tokens": len(text.split()), "total_tokens": 10 + len(text.split())}
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return web.json_response(
            {"id": "c", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}
        )

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0))
