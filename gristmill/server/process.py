"""A Prefect server of this command's own, on loopback, with its database in PREFECT_HOME.

Prefect's own short-lived server has no scheduler, shares the terminal's Ctrl-C with its client (which then waits a
minute for the server that just ended) and outlives a killed parent. This one ends with its parent, however that ends.
"""

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gristmill.server.app import SETTINGS
from gristmill.server.children import die_with_parent
from gristmill.server.database import provide
from schemas.errors import Unavailable

_PORT = 4200
# The first start migrates a database: up to 26 s were seen on two cores, more on a busy machine.
_STARTUP_S = 240
_SENDING_S = 10.0
# A server of our own has our version, and asks for no token.
_CLIENT = {"PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false", "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false"}


@contextmanager
def server(
    *, scheduler: bool, meanwhile: Callable[[], object], afterwards: Callable[[], object] = lambda: None
) -> Iterator[str]:
    """Runs a server until the block ends and gives its API address; PREFECT_API_URL names it meanwhile.

    scheduler: a whole server, with its pages on Prefect's usual port; else only what one command needs.
    `meanwhile` runs while the server starts: importing Prefect takes its client as long as the start takes the server.
    `afterwards` runs after a block without an error, while the server writes down what it still holds.
    A server that the user named by PREFECT_API_URL is used as it is. Unavailable when ours does not come up.
    """
    given = os.environ.get("PREFECT_API_URL")
    if given:
        meanwhile()
        yield given
        afterwards()
        return
    before = dict(os.environ)
    try:
        with _turn() as current:
            process, api = _whole() if scheduler else _lean(current)
            # Prefect's client reads them once, when it is imported.
            os.environ.update({**_CLIENT, **before, "PREFECT_API_URL": api})
            try:
                meanwhile()
                if not scheduler:
                    _no_heartbeats()
                _wait(process, api)
            except BaseException:
                _end(process)
                raise
        try:
            try:
                yield api
            finally:
                _sent()
                process.terminate()
            afterwards()
        finally:
            _end(process)
    finally:
        for name in ("PREFECT_API_URL", *_CLIENT):
            if name not in before:
                os.environ.pop(name, None)


@contextmanager
def _turn() -> Iterator[bool]:
    """One start at a time over one database: of two servers that migrate it at once, one ends with an error.

    Gives whether the database needs no migration.
    """
    if (given := os.environ.get("PREFECT_HOME")) is None:
        yield False
        return
    home = Path(given)
    home.mkdir(parents=True, exist_ok=True)
    with (home / "start.lock").open("w") as lock:
        # Freed with the process, however it ends; the server does not inherit it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        current = provide(home)
        if current:
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield current


def _whole() -> "tuple[subprocess.Popen[bytes], str]":
    """Prefect's server as its own command starts it, and its address."""
    port = _free_port()
    command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    return _started(command, {"PREFECT_SERVER_API_HOST": "127.0.0.1"}), _address(port)


def _lean(current: bool) -> "tuple[subprocess.Popen[bytes], str]":
    """A server that records what one command does, and its address; `current`: its database needs no migration."""
    migrate = {"PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false"} if current else {}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        file = listening.fileno()
        process = _started(["gristmill.server.app", str(file)], {**SETTINGS, **migrate, **os.environ}, file)
        return process, _address(listening.getsockname()[1])


def _started(module: list[str], environ: dict[str, str], *files: int) -> "subprocess.Popen[bytes]":
    environ = {**os.environ, **environ}
    environ.pop("PREFECT_API_URL", None)
    return subprocess.Popen(
        [sys.executable, "-m", *module],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=files,
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
    while (left := deadline - time.monotonic()) > 0:
        if process.poll() is not None:
            raise Unavailable("prefect_server", f"Prefect's server ended with {process.returncode} while it started")
        if _healthy(api, left):
            return
        time.sleep(0.1)
    raise Unavailable("prefect_server", f"Prefect's server did not answer at {api} within {_STARTUP_S} s")


def _healthy(api: str, timeout_s: float) -> bool:
    """Whether it answers; a lean server's socket takes the question before the server can answer it."""
    try:
        with urllib.request.urlopen(f"{api}/health", timeout=timeout_s) as answer:  # noqa: S310 - loopback http, built above
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _sent() -> None:
    """Waits until Prefect's events are sent: its worker tries for ten seconds to reach a server that has ended."""
    from prefect.events.worker import EventsWorker

    if EventsWorker._instances:  # type: ignore[misc]
        # A worker that failed never says that it is done.
        waiting = threading.Thread(target=EventsWorker.instance().wait_until_empty, daemon=True)
        waiting.start()
        waiting.join(_SENDING_S)


def _no_heartbeats() -> None:
    """Whoever waits for them ends with the command; Prefect's thread of them sleeps up to a second at a run's end."""
    from prefect.settings import get_current_settings

    flows = get_current_settings().flows
    if "heartbeat_frequency" not in flows.model_fields_set:
        # No variable can say so: an empty one is no number.
        flows.heartbeat_frequency = None


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}/api"


def _free_port() -> int:
    """Prefect's usual port where it is free, else any free one."""
    for port in (_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Unavailable("prefect_server", "no port is free on 127.0.0.1")
