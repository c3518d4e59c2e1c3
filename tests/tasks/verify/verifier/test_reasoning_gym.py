"""The reasoning_gym verifier, with the package's real data sets and scorers."""

import json
from typing import Any

import msgspec
import pytest

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from schemas.vocabulary import VerdictKind
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.reasoning_gym import ReasoningGym
from tasks.verify.workers import gym

# All of reasoning-gym 0.1.25 with the exception of those that gym.py names.
EVERY = 95


def plain(value: Any) -> Any:
    """Numbers of numpy and whatever else JSON lacks."""
    return value.item() if hasattr(value, "item") else str(value)


def made(dataset: str, index: int = 0, **config: Any) -> Task:
    import reasoning_gym

    entry = reasoning_gym.create_dataset(dataset, seed=5, size=index + 1, **config)[index]
    spec = {
        "dataset": dataset,
        "config": config,
        "seed": 5,
        "index": index,
        "entry": json.loads(msgspec.json.encode(entry, enc_hook=plain)),
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

    assert set(DATASETS) >= gym.MISBEHAVING
    assert len(set(DATASETS) - gym.MISBEHAVING) == EVERY


HOSTILE = [
    "entry['answer']",
    "oracle_answer",
    "metadata['valid_answers'][0]",
    "[x for x in [oracle_answer]][0]",
    "__import__('os').system('touch /tmp/owned')",
    "(1).__class__.__mro__[1].__subclasses__()",
    "sin.__class__",
    "Symbol('x')",
    "lambda: 1",
    "x.func",
    "'a'*9",
    "9**9**9**9",
]


@pytest.mark.parametrize("dataset", ["string_insertion", "n_queens", "spiral_matrix", "simple_integration"])
def test_scorers_that_evaluate_the_answer_get_no_code(bare: Context, dataset: str) -> None:
    task = made(dataset)
    for answer in HOSTILE:
        verdict = ReasoningGym(timeout_s=5).score(task, f"<answer>{answer}</answer>", bare)
        assert verdict.reward == 0.0, (answer, verdict)
    assert ReasoningGym().score(task, str(task.gold), bare).reward == 1.0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_data_set_knows_its_gold_from_a_wrong_answer(bare: Context) -> None:
    """All 95: gold is 1, nothing else is, and nothing at all is unparsable."""
    from reasoning_gym.factory import DATASETS

    names = sorted(set(DATASETS) - gym.MISBEHAVING)
    assert len(names) == EVERY
    bad = {}
    for name in names:
        task = made(name, 1)
        gold = ReasoningGym().score(task, str(task.gold), bare)
        tagged = ReasoningGym().score(task, f"So it is\n<answer>{task.gold}</answer>", bare)
        wrong = [ReasoningGym().score(task, text, bare) for text in ("xyzzy plugh", "None", "-987654321.5", "[]")]
        nothing = ReasoningGym().score(task, " ", bare)
        if gold.reward != 1.0 or tagged.reward != 1.0:
            bad[name] = f"gold {gold.evidence_json} tagged {tagged.evidence_json}"
        elif any(each.kind is VerdictKind.PASS for each in wrong) or nothing.kind is not VerdictKind.UNPARSABLE:
            bad[name] = f"wrong {[each.evidence_json for each in wrong]}"
    assert bad == {}


def test_verdicts_do_not_depend_on_how_the_entry_was_stored(bare: Context) -> None:
    stored = made("zebra_puzzles")
    spec = json.loads(stored.verifier.spec_json)
    spec["entry"]["question"] += " (changed)"
    foreign = msgspec.structs.replace(stored, verifier=VerifierSpec(use="reasoning_gym", spec_json=json.dumps(spec)))
    for task in (stored, foreign):
        assert ReasoningGym().score(task, str(stored.gold), bare).kind is VerdictKind.PASS
