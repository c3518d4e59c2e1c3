"""A candidate that was judged is not executed again; what another moment could change is never remembered."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Step, Trajectory, text_part
from schemas.vocabulary import Source, Stage, VerdictKind
from tasks.context import Context
from tasks.operator import WorkingSet
from tasks.verify.base import Judgement
from tasks.verify.execution import agreed, is_lasting
from tasks.verify.parts import Part, task_of
from tasks.verify.verifier.composite import Composite
from tasks.verify.verifier.hierarchical import Hierarchical
from tasks.verify.verifier.unit_tests import UnitTests
from warehouse.lake import Lake
from warehouse.sidecar import SQLiteSidecar

# A wrong value that no second execution would give again shows whether there was one.
RANDOM = "import os\ndef f(x):\n    return os.urandom(16).hex()"
SPEC: dict[str, Any] = {"entry": "f", "tests": [{"args": [1], "expected": 2}], "timeout_s": 2}


def task(spec: dict[str, Any] = SPEC, name: str = "a", use: str = "unit_tests") -> Task:
    return Task(
        id=name, kind="code", prompt=(Message(role="user", content=name),),
        verifier=VerifierSpec(use=use, spec_json=json.dumps(spec)),
    )  # fmt: skip


def block(code: str, prose: str = "") -> str:
    return f"{prose}\n```python\n{code}\n```"


def said(trajectory: str, text: str, of: str = "a") -> Trajectory:
    return Trajectory(id=trajectory, steps=(Step(source=Source.AGENT, content=text_part(text)),), task_id=of)


@pytest.fixture
def settle(make_context: Callable[..., Context]) -> Any:
    """Judges in a context of its own, as another process would."""
    made: list[Context] = []

    def run(verifier: Any, spec: dict[str, Any], text: str, origin: str = "t") -> Judgement:
        ctx = make_context()
        made.append(ctx)
        found: Judgement = verifier.settle(task(spec, use=verifier.plugin_id()), text, ctx, origin)
        return found

    yield run
    for ctx in made:
        ctx.close()


def test_the_same_code_is_executed_once_across_trajectories_and_runs(
    run_entry: Callable[..., Any], store: Callable[..., None], lake: Lake
) -> None:
    store(
        tasks=[task(), task(name="b")],
        trajectories=[
            said("t1", block(RANDOM)),
            said("t2", block(RANDOM, "Here it is.")),
            said("t3", block(RANDOM, "Another task with the same tests."), of="b"),
            said("t4", block(RANDOM + " ")),
        ],
    )
    run_entry(Stage.VERIFY, {"use": "unit_tests"}, WorkingSet(trajectories=("t1",)))
    run_entry(Stage.VERIFY, {"use": "unit_tests"}, WorkingSet(trajectories=("t2", "t3", "t4")))
    evidence = {
        key: json.loads(found[0].evidence_json) for key, found in lake.verdicts(["t1", "t2", "t3", "t4"]).items()
    }
    assert [evidence[key].get("cached_from") for key in ("t1", "t2", "t3", "t4")] == [None, "t1", "t1", None]
    assert evidence["t1"]["detail"] == evidence["t2"]["detail"] == evidence["t3"]["detail"] != evidence["t4"]["detail"]
    assert [len(found) for found in lake.verdicts(["t1", "t2", "t3"]).values()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("verifier", "spec"),
    [
        (UnitTests(cpu_s=2), SPEC),
        (UnitTests(memory_mb=400), SPEC),
        (UnitTests(repeats=2), SPEC),
        (UnitTests(), {**SPEC, "tests": [{"args": [1], "expected": 3}]}),
        (UnitTests(), {**SPEC, "timeout_s": 3}),
    ],
)
def test_other_tests_limits_or_options_are_judged_anew(settle: Any, verifier: UnitTests, spec: dict[str, Any]) -> None:
    first = settle(UnitTests(), SPEC, block(RANDOM))
    assert "cached_from" not in settle(verifier, spec, block(RANDOM)).evidence
    assert settle(UnitTests(), SPEC, block(RANDOM), "u").evidence == {**first.evidence, "cached_from": "t"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("def f(x):\n    while True: pass", VerdictKind.TIMEOUT),
        ("def f(x):\n    return bytearray(3 << 30)", VerdictKind.MEMORY),
        ("import os\nos._exit(0)", VerdictKind.FAIL),
    ],
)
def test_what_another_moment_could_change_is_not_remembered(settle: Any, code: str, kind: VerdictKind) -> None:
    for _ in range(2):
        found = settle(UnitTests(), SPEC, block(code))
        assert found.kind is kind
        assert "cached_from" not in found.evidence


def test_a_record_that_cannot_be_read_is_judged_again(settle: Any, lake: Lake) -> None:
    assert settle(UnitTests(), SPEC, block("def f(x): return 2")).kind is VerdictKind.PASS
    store = SQLiteSidecar(lake.where.folder / "judgements.sqlite", ())
    with store.transaction() as cursor:
        cursor.run("UPDATE judgements SET data = ?", (b"\x00garbage",))
    store.close()
    found = settle(UnitTests(), SPEC, block("def f(x): return 2"))
    assert found.kind is VerdictKind.PASS
    assert "cached_from" not in found.evidence


FLAKY = "def f(x):\n    return 2 if hash('a') % 2 else 3"


def test_a_candidate_whose_judgements_disagree_is_disputed_and_no_reward(
    run_entry: Callable[..., Any], store: Callable[..., None], lake: Lake
) -> None:
    store(tasks=[task()], trajectories=[said("t1", block(FLAKY)), said("t2", block("def f(x): return 2"))])
    inputs = WorkingSet(tasks=("a",), trajectories=("t1", "t2"))
    ran = run_entry(Stage.VERIFY, {"use": "unit_tests", "repeats": 8}, inputs)
    assert (ran.report.n_kept, ran.report.n_pending) == (2, 0)
    flaky, sound = (lake.verdicts([key])[key][0] for key in ("t1", "t2"))
    assert (flaky.kind, flaky.reward) == (VerdictKind.DISPUTED, None)
    evidence = json.loads(flaky.evidence_json)
    assert evidence["reason"] == "disagreement"
    assert {run["kind"] for run in evidence["runs"]} == {"pass", "fail"}
    assert (sound.kind, json.loads(sound.evidence_json)["repeats"]) == (VerdictKind.PASS, 8)
    after = run_entry(Stage.CURATE, {"use": "verified"}, inputs)
    assert after.report.reasons == {"passed": 1, "disputed": 1}


def test_a_composite_repeats_its_parts_anew(settle: Any) -> None:
    spec = {"parts": [{"use": "unit_tests", "spec": SPEC}]}
    # Remembered by the part, and still judged anew by repetition.
    settle(Composite(), spec, block(FLAKY))
    assert settle(Composite(repeats=8), spec, block(FLAKY)).kind is VerdictKind.DISPUTED
    again = settle(Composite(), spec, block(FLAKY))
    assert again.evidence["parts"][0]["cached_from"] == "t"


def test_a_judgement_under_a_raised_limit_holds_for_that_limit_alone(make_context: Callable[..., Context]) -> None:
    def waits(seconds: float) -> str:
        return block(f"import time\ndef f(x):\n    time.sleep({seconds})\n    return 2")

    ctx, verifier = make_context(), UnitTests(headroom=5)
    slow, quick = (msgspec.structs.replace(task({**SPEC, "timeout_s": 0.5}), gold=waits(s)) for s in (0.4, 0.0))
    first = verifier.settle(slow, waits(1.0), ctx, "t")
    assert (first.kind, first.evidence["limit_s"] > 1.9) == (VerdictKind.PASS, True)
    # The same gold gives the same limit, so the judgement is taken from memory; another one gives another limit.
    assert verifier.settle(slow, waits(1.0), ctx, "u").evidence["cached_from"] == "t"
    other = verifier.settle(quick, waits(1.0), ctx, "u")
    assert (other.kind, "cached_from" in other.evidence) == (VerdictKind.TIMEOUT, False)
    verifier.forget(slow, waits(1.0), ctx)
    assert "cached_from" not in verifier.settle(slow, waits(1.0), ctx, "u").evidence
    ctx.close()


CODE_PART = {"use": "unit_tests", "spec": SPEC}
TEXT_PART = {"use": "answer_check", "spec": {"answers": ["x"]}}


@pytest.mark.parametrize(
    ("whole", "spec"),
    [
        (Composite(), {"parts": [TEXT_PART, CODE_PART]}),
        (Hierarchical(), {"parse": CODE_PART, "semantic": TEXT_PART}),
        (Hierarchical(), {"valid": CODE_PART, "semantic": {"use": "gone"}}),
    ],
)
def test_what_parts_remember_is_forgotten_with_the_whole(
    make_context: Callable[..., Context], whole: Any, spec: dict[str, Any]
) -> None:
    ctx = make_context()
    asked = task(spec, use=whole.plugin_id())
    part = task_of(asked, Part("unit_tests", SPEC))
    whole.settle(asked, block(RANDOM), ctx, "t")
    assert "cached_from" in UnitTests().settle(part, block(RANDOM), ctx).evidence
    whole.forget(asked, block(RANDOM), ctx)
    assert "cached_from" not in UnitTests().settle(part, block(RANDOM), ctx).evidence
    ctx.close()


def test_agreement_is_about_kind_and_reward_alone() -> None:
    right = Judgement(VerdictKind.PASS, 1.0, "pass", {"cpu_s": 0.1})
    assert agreed([right, right._replace(evidence={"cpu_s": 0.2})]).evidence == {"cpu_s": 0.1, "repeats": 2}
    assert agreed([right, Judgement(VerdictKind.INFRASTRUCTURE, None, "start")]).kind is VerdictKind.INFRASTRUCTURE
    assert not is_lasting(agreed([right, right._replace(lasting=False)]))
