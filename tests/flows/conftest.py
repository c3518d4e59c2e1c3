"""Starts the teacher server, writes the recipe."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flows.running import SERVER, Peer, recipe_text


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Callable[[float], Peer]]:
    started: list[subprocess.Popen[str]] = []

    def start(delay: float = 0.0) -> Peer:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        log = tmp_path / "answered.jsonl"
        server = subprocess.Popen(
            [sys.executable, str(SERVER), str(port), str(log), str(delay)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(server)
        assert server.stdout is not None
        assert server.stdout.readline().strip() == "ready"
        return Peer(f"http://127.0.0.1:{port}/v1", log)

    yield start
    for server in started:
        server.communicate("")
        assert server.returncode == 0


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., Path]:
    def write(url: str, out: str = "out", **options: int) -> Path:
        file = tmp_path / "small.toml"
        file.write_text(recipe_text(url, **options).replace("{out}", str(tmp_path / out)), encoding="utf-8")
        return file

    return write
