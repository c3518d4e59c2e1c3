"""A Prefect server of the lake's own while `gristmill serve` runs: only a full server has a scheduler.

It listens on loopback only, keeps its database in PREFECT_HOME, and shows its pages in a browser. Other commands in
the same lake find it by `server.json` and use it instead of starting one of their own.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import Unavailable

_PORT = 4200
# The first start migrates a database: up to 26 s were seen on two cores, more on a busy machine.
_STARTUP_S = 240
_PR_SET_PDEATHSIG = 1


def running(home: Path) -> str | None:
    """The API address of the server that serves this home, or None."""
    try:
        url: str = json.loads((home / "server.json").read_text(encoding="utf-8"))["api"]
    except (OSError, ValueError, KeyError):
        return None
    return url if _healthy(url) else None


@contextmanager
def server(home: Path) -> Iterator[str]:
    """Runs a server until the block ends; gives its API address. Unavailable when it does not come up."""
    port = _free_port()
    api = f"http://127.0.0.1:{port}/api"
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, "PREFECT_HOME": str(home), "PREFECT_SERVER_API_HOST": "127.0.0.1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - no threads run yet, and the call only sets a flag
    )
    note = home / "server.json"
    try:
        _wait(process, api)
        partial = note.with_suffix(".partial")
        partial.write_text(json.dumps({"api": api, "pid": process.pid}), encoding="utf-8")
        partial.replace(note)
        yield api
    finally:
        note.unlink(missing_ok=True)
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: "subprocess.Popen[bytes]", api: str) -> None:
    deadline = time.monotonic() + _STARTUP_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable("prefect_server", f"Prefect's server ended with {process.returncode} while it started")
        if _healthy(api):
            return
        time.sleep(0.3)
    raise Unavailable("prefect_server", f"Prefect's server did not answer at {api} within {_STARTUP_S} s")


def _healthy(api: str) -> bool:
    try:
        with urllib.request.urlopen(f"{api}/health", timeout=2) as answer:  # noqa: S310 - loopback http, built above
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    """Prefect's usual port, or any free one."""
    for port in (_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Unavailable("prefect_server", "no port is free on 127.0.0.1")


def _die_with_parent() -> None:
    """Ends the server even when its parent is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
