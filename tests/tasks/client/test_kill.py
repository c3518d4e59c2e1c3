"""SIGKILL at any moment, then the same again: it finishes, and no recorded answer is paid twice."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from aiohttp import web

ROOT = Path(__file__).resolve().parents[3]
N, PARALLEL = 400, 16


def payer(folder: Path, url: str, count: int = N) -> "subprocess.Popen[str]":
    command = [sys.executable, str(Path(__file__).with_name("payer.py")), str(folder), url, str(count), str(PARALLEL)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)


def slow(made, seconds: float):
    async def behave(request: web.Request, number: int) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.json_response(made.completion(f"answer {number}"))

    return behave


def test_killed_again_and_again(peer, made, tmp_path):
    (folder := tmp_path / "lake").mkdir()
    peer.behave = slow(made, 0.02)
    kills = 0
    for stop_at in (60, 165, 300):
        process = payer(folder, peer.url)
        while len(peer.bodies) < stop_at and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait(30)
        time.sleep(0.1)
    last = payer(folder, peer.url)
    out, _ = last.communicate(timeout=120)
    assert int(out) == N
    assert kills >= 2
    assert len(peer.bodies) <= N + kills * PARALLEL
    before = len(peer.bodies)
    out, _ = payer(folder, peer.url).communicate(timeout=120)
    assert int(out) == N
    assert len(peer.bodies) == before


def test_two_processes_at_once_pay_once(peer, made, tmp_path):
    (folder := tmp_path / "lake").mkdir()
    peer.behave = slow(made, 0.01)
    both = [payer(folder, peer.url, 100) for _ in range(2)]
    assert [int(process.communicate(timeout=120)[0]) for process in both] == [100, 100]
    assert len(peer.bodies) == 100
