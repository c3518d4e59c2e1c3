"""A Prefect server of this command's own, on loopback, with its database in PREFECT_HOME.

Prefect's own short-lived server has no scheduler, shares the terminal's Ctrl-C with its client (which then waits a
minute for the server that just ended) and outlives a killed parent. This one ends with its parent, however that ends.
"""

import fcntl
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gristmill.children import die_with_parent
from gristmill.prefect_database import provide
from schemas.errors import Unavailable

_PORT = 4200
# The first start migrates a database: up to 26 s were seen on two cores, more on a busy machine.
_STARTUP_S = 240


@contextmanager
def server(*, scheduler: bool, meanwhile: Callable[[], object]) -> Iterator[str]:
    """Runs a server until the block ends and gives its API address; PREFECT_API_URL names it meanwhile.

    `meanwhile` runs while the server starts: importing Prefect takes its client as long as the start takes the server.
    A server that the user named by PREFECT_API_URL is used as it is. Unavailable when ours does not come up.
    """
    given = os.environ.get("PREFECT_API_URL")
    if given:
        meanwhile()
        yield given
        return
    port = _free_port(scheduler)
    api = f"http://127.0.0.1:{port}/api"
    # Prefect's client reads it once, when it is imported.
    os.environ["PREFECT_API_URL"] = api
    try:
        with _turn():
            process = _started(port, scheduler=scheduler)
            try:
                meanwhile()
                _wait(process, api)
            except BaseException:
                _end(process)
                raise
        try:
            yield api
        finally:
            _end(process)
    finally:
        os.environ.pop("PREFECT_API_URL", None)


@contextmanager
def _turn() -> Iterator[None]:
    """One start at a time over one database: of two servers that migrate it at once, one ends with an error."""
    if (given := os.environ.get("PREFECT_HOME")) is None:
        yield
        return
    home = Path(given)
    home.mkdir(parents=True, exist_ok=True)
    with (home / "start.lock").open("w") as lock:
        # Freed with the process, however it ends; the server does not inherit it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        provide(home)
        yield


def _started(port: int, *, scheduler: bool) -> "subprocess.Popen[bytes]":
    services = [] if scheduler else ["--no-scheduler", "--no-late-runs"]
    environ = {key: value for key, value in os.environ.items() if key != "PREFECT_API_URL"}
    return subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), *services],
        env={**environ, "PREFECT_SERVER_API_HOST": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - no threads run yet, and the call only sets a flag
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
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


def _free_port(usual: bool) -> int:
    """Prefect's usual port where wanted and free, else any free one."""
    for port in (_PORT, 0) if usual else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Unavailable("prefect_server", "no port is free on 127.0.0.1")
