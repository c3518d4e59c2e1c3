"""Shared by the emit and train tests: a tokenizer trained on the spot, a tiny random Qwen3, a real lake in a folder.

Nothing comes from a hub: the chat template is one of those that TRL ships.
"""

import json
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from schemas.ids import content_id, with_id
from schemas.recipe import Recipe
from schemas.rows import Verdict
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory, text_part
from schemas.vocabulary import Source, Stage, VerdictKind
from tasks.batch import run_batch
from tasks.context import Context
from tasks.emit.offline import offline
from tasks.operator import WorkingSet
from tasks.running import forget, register
from tasks.stage import EntryReport, finish_entry, finish_part, plan_entry
from tests.peers import scripted_server
from warehouse.lake import Lake, Stamp

offline()

STAMP = Stamp("run", "test", "f" * 32)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CORPUS = [
    "What is the sum of two numbers? The answer is forty two. Größe, naïve, 東京, 🎉 and so on.",
    'def add(a, b):\n    return a + b\n\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>',
    "system user assistant tool You are helpful. <think>\n\n</think>\n\n<tool_response>\n3\n</tool_response>",
]


def tool_set(name: str, **properties: str) -> str:
    """A tool list as JSON text: one function and the types of its arguments."""
    shape = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return json.dumps([{"type": "function", "function": {"name": name, "description": name, "parameters": shape}}])


def say(source: Source, text: str, **more: object) -> Step:
    """A step that says `text`."""
    return Step(source=source, content=text_part(text), **more)  # type: ignore[arg-type]


def call_step(index: int, name: str, arguments: str, result: str, text: str = "", error: bool | None = None) -> Step:
    """An agent step with one call and its result."""
    call_id = f"s{index}c0"
    return Step(
        source=Source.AGENT,
        content=text_part(text),
        tools=0,
        tool_calls=(ToolCall(id=call_id, name=name, arguments=arguments, arguments_json=arguments),),
        results=(ToolResult(call_id=call_id, name=name, content=text_part(result), is_error=error),),
    )


def trajectory(*steps: Step, task: str | None = None, sample: int = 0, tools: Sequence[str] = ()) -> Trajectory:
    """A trajectory under its content id."""
    made = Trajectory(
        id="", steps=steps, task_id=task, sample_index=sample, tool_sets=tuple(tools), parents=(task,) if task else ()
    )
    return with_id(made, STAMP.fingerprint)


def chat(question: str, answer: str, **more: object) -> Trajectory:
    """One question, one answer."""
    return trajectory(say(Source.USER, question), say(Source.AGENT, answer), **more)  # type: ignore[arg-type]


def task(text: str, gold: str | None = None, use: str = "exact_answer", spec: str = "{}", kind: str = "code") -> Task:
    """A task under a content id."""
    return Task(
        id=content_id("task", text, gold, use, spec),
        kind=kind,
        prompt=(Message(role="user", content=text),),
        verifier=VerifierSpec(use=use, spec_json=spec),
        gold=gold,
    )


def verdict(of: Trajectory, passed: bool, use: str = "exact_answer", **more: object) -> Verdict:
    """A verdict of `use` on a trajectory."""
    return Verdict(
        id=content_id("verdict", of.id, use),
        trajectory_id=of.id,
        verifier=use,
        kind=VerdictKind.PASS if passed else VerdictKind.FAIL,
        reward=float(passed),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="session")
def given() -> SimpleNamespace:
    """The builders of this module, for tests (a test module cannot import a conftest)."""
    builders = (tool_set, say, call_step, trajectory, chat, task, verdict, train_tokenizer)
    return SimpleNamespace(stamp=STAMP, **{each.__name__: each for each in builders})


@pytest.fixture(scope="session")
def blank_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty lake with every migration applied, to be copied: half a second less a test."""
    folder = tmp_path_factory.mktemp("blank") / "lake"
    Lake.open(folder).close()
    return folder


@pytest.fixture
def lake(blank_lake: Path, tmp_path: Path) -> Iterator[Lake]:
    shutil.copytree(blank_lake, tmp_path / "lake")
    opened = Lake.open(tmp_path / "lake")
    yield opened
    opened.close()


@pytest.fixture
def make_context(lake: Lake, tmp_path: Path) -> Callable[..., Context]:
    """A context over the test's lake; `out` is the folder for shards."""

    def make(out: str = "out", **recipe: object) -> Context:
        return Context(Recipe(name="test", **recipe), lake, "run", tmp_path, tmp_path / out)  # type: ignore[arg-type]

    return make


class Ran(NamedTuple):
    """A finished entry: its report, what flows on, and the run's context."""

    report: EntryReport
    after: WorkingSet
    ctx: Context


@pytest.fixture
def store(lake: Lake) -> Callable[..., None]:
    """Puts rows into the lake, as if an earlier operator had: store(tasks=[...], trajectories=[...])."""

    def put(**rows: Any) -> None:
        lake.append(STAMP, rows)

    return put


@pytest.fixture
def run_entry(lake: Lake, tmp_path: Path) -> Iterator[Callable[..., Ran]]:
    """Runs one entry through the real stage runner, which checks the law of counts.

    run_entry(Stage.LABEL, {"use": "error_mask"}, WorkingSet(trajectories=...), **further recipe fields)
    """
    contexts: list[Context] = []

    def run(
        stage: Stage,
        entry: dict[str, Any],
        inputs: WorkingSet | None = None,
        *,
        limit: int | None = None,
        **fields: Any,
    ) -> Ran:
        inputs = inputs or WorkingSet()
        recipe = Recipe(name="test", **{stage.value: (entry,), **fields})
        ctx = Context(recipe, lake, uuid.uuid4().hex, tmp_path, tmp_path / "out", limit=limit)
        contexts.append(ctx)
        register(ctx)
        ended = []
        for planned in plan_entry(ctx, stage, 0, inputs):
            summaries = [run_batch(ref) for ref in planned.batches]
            ended.append(finish_part(ctx, planned, inputs, summaries, 0.0))
        after, report = finish_entry(inputs, ended, 0.0)
        return Ran(report, after, ctx)

    yield run
    for ctx in contexts:
        forget(ctx)


class Endpoint:
    """A real OpenAI-compatible HTTP endpoint on the loopback. `answer` gives a reply's text, or an HTTP status."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[str], str | int] = lambda _: "ok"
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.asked.append(body)
                said = owner.answer(body["messages"][-1]["content"])
                data = json.dumps(_completion(said) if isinstance(said, str) else {"error": {"message": "no"}}).encode()
                self.send_response(200 if isinstance(said, str) else said)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def teacher(self, **more: Any) -> dict[str, Any]:
        """The recipe entry of a teacher behind this endpoint."""
        return {"use": "openai", "base_url": self.url, "model": "m", "attempts": 1, **more}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _completion(text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    started = Endpoint()
    yield started
    started.close()


def train_tokenizer(folder: Path, template: str) -> None:
    """Trains a byte-level BPE of about 400 tokens and saves it with the chat template of TRL's named file."""
    import trl
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS * 4, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / template).read_text(encoding="utf-8")
    tokenizer.save_pretrained(str(folder))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a 2-layer randomly initialised Qwen3 and its tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    train_tokenizer(folder, "qwen3.jinja")
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=1024,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(str(folder))
    return folder


@pytest.fixture
def peer() -> Iterator[scripted_server.Peer]:
    """A scripted endpoint: what it answers, and how badly, is set by the test."""
    server = scripted_server.Peer()
    yield server
    server.close()


@pytest.fixture
def made() -> SimpleNamespace:
    """The builders of the scripted endpoint's bodies and behaviours."""
    return SimpleNamespace(completion=scripted_server.completion, reply=scripted_server.reply)
