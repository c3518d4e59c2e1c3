"""The reasoning_gym verifier, with the package's real data sets and scorers."""

import json
from typing import Any

import msgspec
import pytest

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from schemas.vocabulary import VerdictKind
from tasks.context import Context
from tasks.verify import gym
from tasks.verify.proof import prove
from tasks.verify.verifier.reasoning_gym import ReasoningGym

# All of reasoning-gym 0.1.25 with the exception of those that gym.py names.
EVERY = 95


def made(dataset: str, index: int = 0, **config: Any) -> Task:
    import reasoning_gym

    entry = reasoning_gym.create_dataset(dataset, seed=5, size=index + 1, **config)[index]
    spec = {
        "dataset": dataset,
        "config": config,
        "seed": 5,
        "index": index,
        "entry": json.loads(msgspec.json.encode(entry)),
    }
    return Task(
        id=dataset, kind="arithmetic", prompt=(), gold=str(entry["answer"]),
        verifier=VerifierSpec(use="reasoning_gym", spec_json=json.dumps(spec)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def total() -> Task:
    return made("chain_sum", min_terms=2, max_terms=2, min_digits=1, max_digits=1)


@pytest.mark.parametrize(
    "form",
    ["{}", "The answer is {}.", "3 + 4 = {}", "Let me think.\n\\boxed{{{}}}", "<answer>{}</answer>", "**Answer:** {}"],
)
def test_a_right_number_is_found_in_what_models_write(bare: Context, total: Task, form: str) -> None:
    assert ReasoningGym().score(total, form.format(total.gold), bare).reward == 1.0


@pytest.mark.parametrize(
    ("answer", "kind"),
    [("", "unparsable"), (" \n", "unparsable"), ("no idea", "fail"), ("123456", "fail"), ("9" * 30_000, "unparsable")],
)
def test_a_wrong_answer_gets_its_kind(bare: Context, total: Task, answer: str, kind: str) -> None:
    verdict = ReasoningGym().score(total, answer, bare)
    assert verdict.kind.value == kind
    assert verdict.reward is not None and verdict.reward < 1.0


def test_its_tasks_prove_themselves(bare: Context, total: Task) -> None:
    assert prove(total, bare).ok
    assert prove(msgspec.structs.replace(total, gold="77777"), bare).reason == "gold_fails"


@pytest.mark.parametrize(("dataset", "reason"), [("boxnet", "bad_scorer"), ("countdown", "bad_scorer")])
def test_data_sets_whose_scorer_misbehaves_are_refused(bare: Context, dataset: str, reason: str) -> None:
    spec = {"dataset": dataset, "entry": {"question": "?", "answer": "1"}}
    bad = Task(id="b", kind="x", prompt=(), verifier=VerifierSpec(use="reasoning_gym", spec_json=json.dumps(spec)))
    with pytest.raises(RecordError, match=reason):
        ReasoningGym().score(bad, "1", bare)


def test_the_lists_name_real_data_sets() -> None:
    from reasoning_gym.factory import DATASETS

    assert set(DATASETS) >= gym.MISBEHAVING | gym.EVALUATING
    assert len(set(DATASETS) - gym.MISBEHAVING) == EVERY


def test_verdicts_do_not_depend_on_how_the_entry_was_stored(bare: Context) -> None:
    stored = made("zebra_puzzles")
    spec = json.loads(stored.verifier.spec_json)
    spec["entry"]["question"] += " (changed)"
    foreign = msgspec.structs.replace(stored, verifier=VerifierSpec(use="reasoning_gym", spec_json=json.dumps(spec)))
    for task in (stored, foreign):
        assert ReasoningGym().score(task, str(stored.gold), bare).kind is VerdictKind.PASS
