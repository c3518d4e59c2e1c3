"""Runs inside the vLLM environment: batches in, answers out. Needs vLLM and the standard library, nothing of ours.

    python vllm_worker.py SOCKET_FD LIFELINE_FD OPTIONS_JSON

Frames on the socket are 8 bytes of length (big-endian) and JSON. The first frame out says {"ready": version} or
{"error": text}; then every batch {"requests": [...]} is answered by {"replies": [...]}, in order. When the
lifeline's other end closes, because the parent ended in whatever way, this process ends at once.
"""

import hashlib
import json
import os
import socket
import struct
import sys
import threading
from typing import Any


def send(channel: socket.socket, value: Any) -> None:
    """One frame out."""
    data = json.dumps(value).encode()
    channel.sendall(struct.pack(">Q", len(data)) + data)


def receive(channel: socket.socket) -> Any:
    """One frame in; None at the end."""
    head = exactly(channel, 8)
    data = exactly(channel, struct.unpack(">Q", head)[0]) if head else None
    return json.loads(data) if data else None


def exactly(channel: socket.socket, size: int) -> bytes | None:
    """`size` bytes, or None at the end."""
    parts = []
    while size:
        part = channel.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def watch(lifeline: int) -> None:
    """Ends this process when the parent is gone."""
    os.read(lifeline, 1)
    os._exit(1)


def sampling(vllm: Any, request: dict[str, Any], room: int) -> Any:
    """vLLM's sampling parameters of one request."""
    structured = None
    wanted = request.get("response_format") or {}
    if wanted.get("type") in ("json_schema", "json_object"):
        from vllm.sampling_params import StructuredOutputsParams

        schema = (wanted.get("json_schema") or {}).get("schema")
        structured = StructuredOutputsParams(json=schema) if schema else StructuredOutputsParams(json_object=True)
    return vllm.SamplingParams(
        max_tokens=max(1, min(request["max_tokens"], room)),
        temperature=request["temperature"],
        top_p=request["top_p"],
        seed=request["seed"],
        stop=request["stop"] or None,
        logprobs=0,
        structured_outputs=structured,
    )


def answer(llm: Any, vllm: Any, requests: list[dict[str, Any]], longest: int) -> list[dict[str, Any]]:
    """The replies to a batch; one that cannot be asked has an error instead."""
    tokenizer = llm.get_tokenizer()
    replies: list[dict[str, Any]] = [{} for _ in requests]
    prompts, parameters, where = [], [], []
    for index, request in enumerate(requests):
        try:
            encoded = tokenizer.apply_chat_template(
                request["messages"], tools=request["tools"], add_generation_prompt=True, tokenize=True
            )
            ids = [int(token) for token in (encoded["input_ids"] if hasattr(encoded, "keys") else encoded)]
            if len(ids) >= longest:
                raise ValueError(f"the prompt has {len(ids)} tokens, the context {longest}")
            parameters.append(sampling(vllm, request, longest - len(ids)))
            prompts.append({"prompt_token_ids": ids})
            where.append(index)
        except Exception as error:
            replies[index] = {"error": f"{type(error).__name__}: {error}"}
    outputs = llm.generate(prompts, parameters, use_tqdm=False) if prompts else []
    for index, prompt, output in zip(where, prompts, outputs, strict=True):
        best = output.outputs[0]
        ids = list(best.token_ids)
        replies[index] = {
            "text": best.text,
            "raw_text": tokenizer.decode(ids, skip_special_tokens=False),
            "finish_reason": best.finish_reason,
            "prompt_token_ids": prompt["prompt_token_ids"],
            "token_ids": ids,
            "logprobs": [step[token].logprob for step, token in zip(best.logprobs or [], ids, strict=True)],
        }
    return replies


def main() -> None:
    """Loads the model, then answers until the socket closes."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    threading.Thread(target=watch, args=(int(sys.argv[2]),), daemon=True).start()
    options = json.loads(sys.argv[3])
    try:
        import vllm

        llm = vllm.LLM(**options)
        template = str(llm.get_tokenizer().chat_template)
        longest = options["max_model_len"]
    except BaseException as error:
        send(channel, {"error": f"{type(error).__name__}: {error}"})
        raise
    send(channel, {"ready": vllm.__version__, "template_sha256": hashlib.sha256(template.encode()).hexdigest()})
    while (batch := receive(channel)) is not None:
        send(channel, {"replies": answer(llm, vllm, batch["requests"], longest)})
    os._exit(0)


if __name__ == "__main__":
    main()
