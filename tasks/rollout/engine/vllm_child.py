"""The parent's side of vLLM in a child process of another environment: start, exchange batches, end it by id.

The channel is a socket pair that only the two processes hold: no port, no file. The child ends with us whatever
happens to us: it watches a pipe whose other end only this process holds.
"""

import contextlib
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from schemas.errors import Unavailable, UserError
from tasks.client.redact import marked_names, redact
from tasks.client.request import Cause, ModelReply, ModelRequest
from tasks.client.teacher import AttemptFailed

_WORKER = Path(__file__).with_name("vllm_worker.py")
_START_S = 600.0
_END_S = 10.0

# vLLM must neither ask a hub nor report usage; its engine runs in the child itself, so that there is one process
# to end; the OpenMP threads sleep instead of spinning, since sandboxes use the same cores.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_WAIT_POLICY": "PASSIVE",
}


class VllmEngine:
    """vLLM's offline engine under `python`. options: arguments of vllm.LLM; kv_cache_gb: memory for the cache."""

    def __init__(
        self, python: str, options: Callable[[], Mapping[str, Any]], kv_cache_gb: int, tokenizer_sha256: str | None
    ) -> None:
        self.python, self._options, self.kv_cache_gb = python, options, kv_cache_gb
        self._tokenizer_sha256, self._template_sha256, self.version = tokenizer_sha256, None, ""
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._lifeline: int | None = None
        self._log: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._ended = False

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Starts the child and waits until its model is loaded. Unavailable with the end of its log when it fails."""
        if not os.access(self.python, os.X_OK):
            raise UserError(
                f"python = {self.python!r} of teacher 'vllm' cannot be run.",
                "It is the interpreter of an environment with vLLM.",
                "Make one: python -m venv .envs/vllm && .envs/vllm/bin/pip install --no-deps -r requirements-vllm.lock",
            )
        options = json.dumps(dict(self._options()))
        ours, theirs = socket.socketpair()
        watched, lifeline = os.pipe()
        # A file without a name: whatever happens to this process, nothing is left behind.
        log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the child runs
        hidden = {*marked_names(), "PYTHONPATH", "PYTHONHOME"}
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        try:
            with self._lock:
                if self._ended:
                    raise AttemptFailed(Cause.ENGINE, "the engine was ended")
                self._process = subprocess.Popen(
                    # Isolated: the script's own folder is not importable, neither are packages of this environment.
                    [self.python, "-I", str(_WORKER), str(theirs.fileno()), str(watched), options],
                    pass_fds=(theirs.fileno(), watched),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**environment, **_ENVIRONMENT, "VLLM_CPU_KVCACHE_SPACE": str(self.kv_cache_gb)},
                )
                self._channel, self._lifeline, self._log = ours, lifeline, log
        finally:
            theirs.close()
            os.close(watched)
        ours.settimeout(_START_S)
        try:
            hello = self._receive()
        except (AttemptFailed, OSError) as error:
            tail = self._tail()
            self.stop()
            raise Unavailable("engine", f"vLLM did not start: {error}; {tail}") from error
        if "ready" not in hello:
            tail = self._tail()
            self.stop()
            raise Unavailable("engine", f"vLLM did not start: {redact(str(hello.get('error')))}; {tail}")
        ours.settimeout(None)
        self.version, self._template_sha256 = hello["ready"], hello["template_sha256"]

    def generate(
        self, requests: Sequence[ModelRequest], deliver: Callable[[int, ModelReply | AttemptFailed], None]
    ) -> None:
        """Delivers each request's reply, or why it has none, by index."""
        if self._process is None or self._process.poll() is not None:
            # It died under an earlier batch, whose requests come again.
            self.stop()
            self.start()
        try:
            self._send({"requests": [_plain(request) for request in requests]})
            replies = self._receive()["replies"]
        except (OSError, AttemptFailed) as error:
            raise AttemptFailed(Cause.ENGINE, f"vLLM ended: {error}; {self._tail()}") from error
        for index, reply in enumerate(replies):
            deliver(index, self._reply(reply))

    def close(self) -> None:
        """Ends the child for good."""
        with self._lock:
            self._ended = True
        self.stop()

    def stop(self) -> None:
        """Ends the child, if there is one, and drops its log."""
        with self._lock:
            process, self._process = self._process, None
            channel, lifeline, log = self._channel, self._lifeline, self._log
            self._channel = self._lifeline = self._log = None
        if process is not None:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if channel is not None:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)
            channel.close()
        if lifeline is not None:
            os.close(lifeline)
        if log is not None:
            log.close()

    def _reply(self, reply: Mapping[str, Any]) -> ModelReply | AttemptFailed:
        if "error" in reply:
            return AttemptFailed(Cause.REJECTED, str(reply["error"]))
        return ModelReply(
            text=reply["text"],
            raw_text=reply["raw_text"],
            finish_reason=reply["finish_reason"],
            prompt_tokens=len(reply["prompt_token_ids"]),
            completion_tokens=len(reply["token_ids"]),
            prompt_token_ids=tuple(reply["prompt_token_ids"]),
            completion_token_ids=tuple(reply["token_ids"]),
            logprobs=tuple(reply["logprobs"]),
            logprobs_mode="raw",
            engine=f"vllm-{self.version}",
            tokenizer_sha256=self._tokenizer_sha256,
            template_sha256=self._template_sha256,
        )

    def _send(self, value: Any) -> None:
        if self._channel is None:
            raise AttemptFailed(Cause.ENGINE, "the engine was ended")
        data = msgspec.json.encode(value)
        self._channel.sendall(struct.pack(">Q", len(data)) + data)

    def _receive(self) -> Any:
        size = struct.unpack(">Q", self._exactly(8))[0]
        return msgspec.json.decode(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            channel = self._channel
            part = channel.recv(min(size - len(parts), 1 << 20)) if channel is not None else b""
            if not part:
                raise AttemptFailed(Cause.ENGINE, "the channel was closed")
            parts += part
        return bytes(parts)

    def _tail(self, lines: int = 12) -> str:
        """The end of the child's log."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 8192, max(0, size - 8192)).decode("utf-8", "replace")
        return redact("\n".join(text.splitlines()[-lines:])[-2000:])


def _plain(request: ModelRequest) -> dict[str, Any]:
    return {
        "messages": request.messages,
        "tools": None if request.tools_json is None else msgspec.Raw(request.tools_json.encode()),
        "max_tokens": request.max_tokens or 512,
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        "seed": None if request.seed is None else request.seed & 0x7FFFFFFF,
        "stop": request.stop,
        "response_format": request.response_format,
    }
