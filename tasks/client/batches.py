"""A provider's batch API as an engine: cheaper answers that come within hours, and are never paid for twice.

Before a batch is submitted it is written down as intended, durably, with an id of its own that also goes into the
provider's metadata. After a kill at any moment the same requests come again: the note says which batch held them,
the provider is asked for that id, and what it has is taken; only what no batch holds is submitted.

Built on the vendor's SDK: files and batches are not the hot path.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.ids import content_id, digest
from tasks.client.http import Address, body_of, classify, key_of
from tasks.client.parse import parse_completion, snippet
from tasks.client.redact import redact
from tasks.client.request import Cause, ModelReply, ModelRequest
from tasks.client.teacher import AttemptFailed, Notes

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch

_FINAL = frozenset({"completed", "failed", "expired", "cancelled"})
_METADATA = "gristmill_batch"

# What providers accept in one file.
_MOST = 50_000

Deliver = Callable[[int, ModelReply | AttemptFailed], None]


class BatchEngine:
    """Answers batches of requests through /files and /batches; used by one thread at a time (see EngineTransport).

    poll_s: seconds between looks at a batch. notes: the durable place where intentions are written down.
    """

    def __init__(self, address: Address, notes: Notes, poll_s: float = 30.0) -> None:
        self.address, self.notes, self.poll_s = address, notes, poll_s
        self._client: OpenAI | None = None
        self._closed = False

    def start(self) -> None:
        """Opens the SDK's client."""
        from openai import OpenAI

        self._client = OpenAI(
            base_url=self.address.base_url,
            api_key=key_of(self.address.key_env) or "none",
            timeout=self.address.timeout_s,
            max_retries=5,
            default_headers=dict(self.address.headers),
        )

    def generate(self, requests: Sequence[ModelRequest], deliver: Deliver) -> None:
        """Delivers every request's reply or failure by index; returns when the last batch is final."""
        import openai

        names = [self._name(request) for request in requests]
        left = dict(zip(names, range(len(requests)), strict=True))
        try:
            for note in self._noted(left):
                batch = self._found(note["id"])
                if batch is not None:
                    self._take(self._awaited(batch), left, requests, deliver, failures=False)
                if not left:
                    return
            ordered = list(left)
            for start in range(0, len(ordered), _MOST):
                part = ordered[start : start + _MOST]
                batch = self._submit(part, [requests[left[name]] for name in part])
                self._take(self._awaited(batch), left, requests, deliver, failures=True)
        except openai.APIStatusError as error:
            raise classify(error.status_code, error.response.headers, error.response.content) from error
        except openai.APITimeoutError as error:
            raise AttemptFailed(Cause.TIMEOUT, redact(str(error))) from error
        except openai.APIConnectionError as error:
            raise AttemptFailed(Cause.CONNECTION, redact(str(error))) from error
        for index in left.values():
            deliver(index, AttemptFailed(Cause.SERVER_ERROR, "the batch ended without an answer to this request"))

    def close(self) -> None:
        """Stops waiting; batches go on at the provider and are found again by the next run."""
        self._closed = True

    @property
    def _api(self) -> "OpenAI":
        if self._client is None:
            raise RuntimeError("start() comes first")
        return self._client

    def _name(self, request: ModelRequest) -> str:
        """The request's id in a batch: the same in every run."""
        body = msgspec.json.encode(body_of(request, self.address), order="deterministic")
        return digest(body + f"|{request.sample_index}|{request.seed}".encode())

    def _slot(self, number: int) -> str:
        return content_id("provider-batch", self.address.base_url, self.address.model, number)

    def _noted(self, names: Mapping[str, int]) -> Iterator[dict[str, Any]]:
        """Intended batches that hold any of the requests, newest first."""
        notes, number = [], 0
        while (data := self.notes.get(self._slot(number))) is not None:
            note = json.loads(data)
            if not names.keys().isdisjoint(note["names"]):
                notes.append(note)
            number += 1
        yield from reversed(notes)

    def _found(self, own_id: str) -> "Batch | None":
        """The provider's batch under our id; None when it was never submitted."""
        for batch in self._api.batches.list(limit=100):
            if (batch.metadata or {}).get(_METADATA) == own_id:
                return batch
        return None

    def _submit(self, names: Sequence[str], requests: Sequence[ModelRequest]) -> "Batch":
        """Writes the intention down, then uploads and submits."""
        number = 0
        while True:
            own_id = content_id("batch", self.address.base_url, number, list(names))
            intended = json.dumps({"id": own_id, "names": list(names)}).encode()
            # Another process may have taken the slot between the look and here.
            if (
                self.notes.get(self._slot(number)) is None
                and self.notes.record(self._slot(number), intended) == intended
            ):
                break
            number += 1
        lines = [
            msgspec.json.encode(
                {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body_of(one, self.address)}
            )
            for name, one in zip(names, requests, strict=True)
        ]
        file = self._api.files.create(file=(f"{own_id}.jsonl", b"\n".join(lines) + b"\n"), purpose="batch")
        # The SDK's own retries carry one idempotency key, so that a lost answer does not submit twice.
        return self._api.batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={_METADATA: own_id},
            extra_headers={"Idempotency-Key": own_id},
        )

    def _awaited(self, batch: "Batch") -> "Batch":
        while batch.status not in _FINAL:
            until = time.monotonic() + self.poll_s
            while time.monotonic() < until:
                if self._closed:
                    raise AttemptFailed(Cause.ENGINE, "closed while a batch was under way")
                time.sleep(min(0.2, self.poll_s))
            batch = self._api.batches.retrieve(batch.id)
        return batch

    def _take(
        self,
        batch: "Batch",
        left: dict[str, int],
        requests: Sequence[ModelRequest],
        deliver: Deliver,
        *,
        failures: bool,
    ) -> None:
        """Delivers what the batch answered; failures too, unless a further try is to come."""
        for file_id in (batch.output_file_id, batch.error_file_id):
            if not file_id:
                continue
            for line in self._api.files.content(file_id).content.splitlines():
                entry = json.loads(line) if line.strip() else {}
                index = left.get(entry.get("custom_id", ""))
                if index is None:
                    continue
                outcome = _outcome(entry, requests[index])
                if isinstance(outcome, ModelReply) or failures:
                    del left[entry["custom_id"]]
                    deliver(index, outcome)


def _outcome(entry: Mapping[str, Any], request: ModelRequest) -> ModelReply | AttemptFailed:
    response = entry.get("response") or {}
    body = msgspec.json.encode(response.get("body"))
    if response.get("status_code") == 200:
        try:
            return parse_completion(body, max_tokens=request.max_tokens)
        except AttemptFailed as failed:
            return failed
    if response.get("status_code"):
        return classify(int(response["status_code"]), {}, body)
    return AttemptFailed(Cause.SERVER_ERROR, snippet(msgspec.json.encode(entry.get("error"))))
