"""The in-process engine on a tiny random model: exact tokens, rows that do not depend on each other, true log-probs."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from schemas.recipe import Budget  # noqa: E402
from tasks.client.client import ModelClient  # noqa: E402
from tasks.client.request import CallFailure, Cause, ModelRequest  # noqa: E402
from tasks.rollout.engine.local import load_sampler  # noqa: E402
from tasks.rollout.engine.sampler import Row, Sampler, _draw  # noqa: E402
from tasks.rollout.teacher.local import Local  # noqa: E402

PROMPTS = ((5, 9, 20, 33, 7), (40, 41), (5, 9, 20, 33, 7, 88, 90, 12))


@pytest.fixture(scope="module")
def sampler(tiny_model) -> Sampler:
    return load_sampler(tiny_model, 2)


def draw(sampler: Sampler, rows: list[Row]) -> list:
    found = {}
    sampler.run(rows, found.__setitem__)
    return [found[index] for index in range(len(rows))]


def rows(n: int = 12, **options) -> list[Row]:
    given = {"max_tokens": 20, "temperature": 1.0, "top_p": 1.0, **options}
    return [Row(prompt=PROMPTS[k % 3], seed=100 + k, **given) for k in range(n)]


def test_greedy_is_what_transformers_generates(sampler):
    for row, sampled in zip(rows(3), draw(sampler, rows(3, temperature=0.0)), strict=True):
        whole = sampler.model.generate(input_ids=torch.tensor([row.prompt]), max_new_tokens=20, do_sample=False)
        assert tuple(whole[0, len(row.prompt) :].tolist()) == sampled.tokens


def test_a_row_does_not_depend_on_its_neighbours_or_their_order(sampler):
    mixed = rows(12) + rows(6, max_tokens=7)
    together, backwards = draw(sampler, mixed), draw(sampler, mixed[::-1])[::-1]
    assert [s.tokens for s in together] == [s.tokens for s in backwards]
    for index in (0, 5, 13):
        assert draw(sampler, [mixed[index]])[0].tokens == together[index].tokens


def test_other_seeds_give_other_samples(sampler):
    assert len({sampled.tokens for sampled in draw(sampler, [r._replace(prompt=PROMPTS[0]) for r in rows(12)])}) == 12


def test_logprobs_are_those_of_a_forward_pass_over_the_whole(sampler):
    for row, sampled in zip(rows(6), draw(sampler, rows(6, temperature=0.7)), strict=True):
        ids = torch.tensor([row.prompt + sampled.tokens])
        with torch.inference_mode():
            logits = sampler.model(input_ids=ids).logits[0, len(row.prompt) - 1 : -1].float()
        expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(sampled.tokens)[:, None]).squeeze(1)
        assert torch.allclose(expected, torch.tensor(sampled.logprobs), atol=1e-4)


def test_it_ends_at_the_token_limit_or_with_the_end_of_turn(sampler):
    for sampled in draw(sampler, rows(60, max_tokens=40)):
        assert len(sampled.tokens) == len(sampled.logprobs)
        if sampled.finish_reason == "stop":
            assert sampled.tokens[-1] in sampler.eos
            assert not sampler.eos & set(sampled.tokens[:-1])
        else:
            assert len(sampled.tokens) == 40


def test_draws_follow_the_distribution():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]])).repeat(4000, 1)
    uniforms = [(k + 0.5) / 4000 for k in range(4000)]
    one = Row((1,), 1, 1.0, 1.0, 0)
    counts = Counter(_draw(logits, [one] * 4000, uniforms)[0].tolist())
    assert [counts[token] for token in range(4)] == [2000, 1200, 600, 200]
    nucleus = Counter(_draw(logits, [one._replace(top_p=0.75)] * 4000, uniforms)[0].tolist())
    assert set(nucleus) == {0, 1}
    assert nucleus[0] == pytest.approx(2500, abs=1)
    assert set(Counter(_draw(logits, [one._replace(temperature=0.0)] * 4000, uniforms)[0].tolist())) == {0}


def test_halted(sampler):
    found = {}
    sampler.run(rows(3), found.__setitem__, halted=lambda: True)
    assert found == {}


def test_through_the_client_with_text_tokens_and_hashes(tiny_model, lake):
    client = ModelClient.for_lake(lake, Budget())
    try:
        teacher = Local(model=str(tiny_model))
        requests = [
            ModelRequest(messages=({"role": "user", "content": f"add {k}"},), seed=k, max_tokens=12, item_id=str(k))
            for k in range(20)
        ]
        replies = client.complete_all(teacher, requests)
        again = client.complete_all(teacher, requests)
        unanswerable = client.complete_all(
            teacher, [ModelRequest(messages=requests[0].messages, response_format={"type": "json_object"})]
        )
    finally:
        client.close()
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(tiny_model))
    for request, reply in zip(requests, replies, strict=True):
        prompt = tokenizer.apply_chat_template(list(request.messages), add_generation_prompt=True)["input_ids"]
        assert reply.prompt_token_ids == tuple(prompt)
        assert reply.raw_text == tokenizer.decode(reply.completion_token_ids)
        assert len(reply.logprobs) == len(reply.completion_token_ids) == reply.completion_tokens
        assert reply.logprobs_mode == "raw"
        assert len(reply.tokenizer_sha256) == len(reply.template_sha256) == 64
    assert all(reply.cached for reply in again)
    assert [r.completion_token_ids for r in again] == [r.completion_token_ids for r in replies]
    assert isinstance(unanswerable[0], CallFailure)
    assert unanswerable[0].cause is Cause.REJECTED
