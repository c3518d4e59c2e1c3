"""A helper process that can be killed: for scorers that may hang, recurse or eat memory on a hostile answer.

Some scorers guard themselves with signals, which only work in a main thread; here they have one, and the clock
runs outside. Requests and answers are JSON lines. The process ends when its standard input does, so it never
outlives the one that started it.
"""

import atexit
import importlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from schemas.errors import Unavailable

_ROOT = Path(__file__).resolve().parents[3]
_MEMORY = 6 << 30


class WorkerTimeout(Exception):
    """The call took too long; its process was killed."""


class WorkerDied(Exception):
    """The process ended in the middle of the call, and did so again in a fresh one: memory, crash."""


class WorkerFailed(Exception):
    """The function raised; the message is its error."""


class Worker:
    """One process that answers calls of one function, `module:name`, whose argument and result are JSON values."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, value: Any, timeout_s: float) -> Any:
        """The function's result; starts a process when there is none."""
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(value).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            self.close()
            raise WorkerDied(self._target) from error
        waiting = select.poll()
        waiting.register(process.stdout, select.POLLIN)
        if not waiting.poll(timeout_s * 1000):
            self.close()
            raise WorkerTimeout(f"{self._target} took over {timeout_s} s")
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            self.close()
            raise WorkerDied(self._target)
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(answer["error"])
        return answer["value"]

    def close(self) -> None:
        """Kills the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        code = f"from tasks.verify.workers.worker import serve; serve({self._target!r})"
        paths = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
        )
        assert process.stdout is not None
        waiting = select.poll()
        waiting.register(process.stdout, select.POLLIN)
        # Importing a large package on a loaded machine takes its time; that must not count against the answer.
        if not waiting.poll(120_000) or process.stdout.readline() != b"ready\n":
            process.kill()
            process.wait()
            raise Unavailable("helper", f"{self._target} did not start")
        return process


class Pool:
    """At most one worker per core for one function; any thread may call."""

    def __init__(self, target: str) -> None:
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        for _ in range(len(os.sched_getaffinity(0))):
            self._idle.put(Worker(target))

    def call(self, value: Any, timeout_s: float) -> Any:
        """As Worker.call; waits for a free worker first. A process that died is given one more try."""
        worker = self._idle.get()
        try:
            try:
                return worker.call(value, timeout_s)
            except WorkerDied:
                return worker.call(value, timeout_s)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Kills the idle workers."""
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return


_pools: dict[tuple[int, str], Pool] = {}
_lock = threading.Lock()


def pool(target: str) -> Pool:
    """The pool of this process for `target`, made on first use and ended when the process does."""
    with _lock:
        key = (os.getpid(), target)
        if key not in _pools:
            _pools[key] = Pool(target)
            atexit.register(_pools[key].close)
        return _pools[key]


def serve(target: str) -> None:
    """The loop of the helper process."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    # What a library prints must not be taken for an answer.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    out.write(b"ready\n")
    out.flush()
    for line in sys.stdin.buffer:
        try:
            answer: dict[str, Any] = {"value": function(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()
