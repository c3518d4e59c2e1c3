"""A real vLLM, as a server and as a child process: exact tokens, structured output, tool calls, whole rollouts.

Needs GRISTMILL_VLLM_PYTHON, the interpreter of an environment made from requirements-vllm.lock.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.recipe import Budget
from schemas.trajectory import text_of
from schemas.vocabulary import ArgumentState, Source, Stage
from tasks.client.client import ModelClient
from tasks.client.request import ModelReply, ModelRequest
from tasks.operator import WorkingSet
from tasks.rollout.engine.model_files import prepare_model
from tasks.rollout.episode import argument_state
from tasks.rollout.teacher.openai import OpenAI
from tasks.rollout.teacher.vllm import Vllm

PYTHON = os.environ.get("GRISTMILL_VLLM_PYTHON", "")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON, reason="GRISTMILL_VLLM_PYTHON is not set"),
]
ROOT = Path(__file__).resolve().parents[3]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "strict": True,
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Paris", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
TOOLS = json.dumps([WEATHER])
PERSON = {
    "type": "json_schema",
    "json_schema": {
        "name": "person",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 120}},
            "required": ["name", "age"],
            "additionalProperties": False,
        },
    },
}


def ask(text: str, **options) -> ModelRequest:
    return ModelRequest(messages=({"role": "user", "content": text},), **{"max_tokens": 24, "seed": 3, **options})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path_factory.mktemp("vllm") / "server.log").open("w")
    command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(prepare_model())]
    command += ["--served-model-name", "smollm2", "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16"]
    command += ["--max-model-len", "2048", "--enforce-eager", "--enable-auto-tool-choice"]
    command += ["--tool-call-parser", "hermes"]
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    process = subprocess.Popen(
        command, stdout=log, stderr=log, env={**os.environ, **offline, "OMP_WAIT_POLICY": "PASSIVE"}, process_group=0
    )
    try:
        for _ in range(600):
            assert process.poll() is None, Path(log.name).read_text()[-3000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            except OSError:
                time.sleep(1)
        yield OpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", model="smollm2", timeout_s=300, logprobs=True, token_ids=True
        )
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


@pytest.fixture
def client(lake) -> Iterator[ModelClient]:
    made = ModelClient.for_lake(lake, Budget())
    yield made
    made.close()


def test_tokens_and_log_probabilities(server, client):
    import transformers

    requests = [ask(f"What is {k} + 4?", seed=k, logprobs=True, token_ids=True) for k in range(4)]
    replies = client.complete_all(server, requests)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(prepare_model()))
    for request, reply in zip(requests, replies, strict=True):
        assert isinstance(reply, ModelReply), reply
        prompt = tokenizer.apply_chat_template(list(request.messages), add_generation_prompt=True)["input_ids"]
        assert reply.prompt_token_ids == tuple(prompt)
        assert len(reply.logprobs or ()) == len(reply.completion_token_ids) == reply.completion_tokens
        assert tokenizer.decode(reply.completion_token_ids, skip_special_tokens=True) == reply.text
        assert (reply.engine or "").startswith("vllm-")
    assert all(reply.cached for reply in client.complete_all(server, requests))


def test_structured_output(server, client):
    requests = [ask("Invent a person. Reply in JSON.", seed=k, max_tokens=60, response_format=PERSON) for k in range(3)]
    for reply in client.complete_all(server, requests):
        assert isinstance(reply, ModelReply), reply
        person = json.loads(reply.text)
        assert set(person) == {"name", "age"}
        assert isinstance(person["age"], int)


def test_tool_calls(server, client):
    required = ask("Weather in Paris?", tools_json=TOOLS, tool_choice="required", max_tokens=60)
    named = ask(
        "Weather in Oslo?",
        tools_json=TOOLS,
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        max_tokens=60,
    )
    for reply in client.complete_all(server, [required, named]):
        assert isinstance(reply, ModelReply), reply
        (call,) = reply.tool_calls[:1]
        assert call.name == "get_weather"
        assert json.loads(call.arguments)["city"] in ("Paris", "Oslo")


def test_a_call_cut_by_the_token_limit_is_never_taken_for_whole(server, client):
    forced = {"type": "function", "function": {"name": "get_weather"}}
    requests = [
        ask("Weather?", tools_json=TOOLS, max_tokens=most, tool_choice=choice)
        for most in (8, 16, 20, 22, 24)
        for choice in ("required", forced)
    ]
    for reply in client.complete_all(server, requests):
        assert isinstance(reply, ModelReply), reply
        if not reply.tool_calls:
            # Cut before its arguments began, the call is text.
            assert (reply.finish_reason, reply.text[:5]) == ("length", "<tool")
        for call in reply.tool_calls:
            state, parsed = argument_state(call.arguments, cut=reply.finish_reason == "length")
            assert state is ArgumentState.TRUNCATED or (parsed and json.loads(parsed)["city"] in ("Paris", "Oslo"))


def test_rollouts_at_the_server(server, put_tasks, run_entry, lake):
    who = {"use": "openai", "base_url": server.base_url, "model": "smollm2", "timeout_s": 300.0}
    who |= {"logprobs": True, "token_ids": True}
    entry = {"use": "direct", "teachers": [who], "samples": 2, "max_tokens": 12}
    ran = run_entry(Stage.ROLLOUT, entry, WorkingSet(tasks=put_tasks(2)))
    check_rollouts(lake, ran.after.trajectories, 4)


def test_rollouts_in_a_child_process(put_tasks, run_entry, lake):
    entry = {"use": "direct", "teachers": [{"use": "vllm", "python": PYTHON}], "samples": 2, "max_tokens": 12}
    tasks = WorkingSet(tasks=put_tasks(2))
    ran = run_entry(Stage.ROLLOUT, entry, tasks)
    check_rollouts(lake, ran.after.trajectories, 4)
    engines = [desk.transport.engine for desk in ran.ctx.client._desks.values()]
    child = engines[0].pid
    os.kill(child, 0)
    # A killed child is started again for what is asked next.
    os.kill(child, signal.SIGKILL)
    again = [ask(f"Name a colour {k}.", response_format=PERSON, max_tokens=60) for k in range(2)]
    replies = ran.ctx.client.complete_all(Vllm(python=PYTHON), again)
    assert [set(json.loads(reply.text)) for reply in replies] == [{"name", "age"}] * 2
    second = engines[0].pid
    assert second not in (None, child)
    ran.ctx.close()
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


def check_rollouts(lake, ids, count: int) -> None:
    assert len(ids) == count
    for one in lake.trajectories(list(ids)):
        assert [step.source for step in one.steps] == [Source.USER, Source.AGENT]
        (span,) = lake.token_spans([one.id])[one.id]
        assert span.prompt_token_ids
        assert len(span.completion_token_ids) == len(span.completion_logprobs) == one.steps[1].usage.completion_tokens
        assert text_of(one.steps[1].content).strip() in span.raw_text


CHILD = """
import sys
from types import SimpleNamespace
from schemas.recipe import Budget
from tasks.client.client import ModelClient
from tasks.client.request import ModelRequest
from tasks.rollout.teacher.vllm import Vllm
from warehouse.address import resolve

client = ModelClient.for_lake(SimpleNamespace(where=resolve(sys.argv[1])), Budget())
teacher = Vllm(python=sys.argv[2])
client.complete_all(teacher, [ModelRequest(messages=({"role": "user", "content": "hi"},), max_tokens=2)])
print(next(iter(client._desks.values())).transport.engine.pid, flush=True)
sys.stdin.read()
"""


def test_the_child_ends_when_its_parent_is_killed(tmp_path):
    (tmp_path / "lake").mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "lake"), PYTHON],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    parent.kill()
    parent.wait()
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the child outlived its parent")
