"""A run that ends early: nothing begins, what is in flight ends or is not committed, and no verdict is a wrong one."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import Unavailable
from schemas.recipe import Recipe
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Step, Trajectory, text_part
from schemas.vocabulary import Source, Stage
from tasks.batch import BatchRef, BatchSummary, run_batch
from tasks.context import Context
from tasks.operator import WorkingSet
from tasks.running import context_of, forget, in_flight, register
from tasks.sandbox.sandbox import Sandbox
from tasks.stage import plan_entry
from warehouse.lake import Lake, Stamp

SLOW = "```python\nimport time\ndef f(x):\n    time.sleep(1.5)\n    return 2\n# {}\n```"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with a task and four right answers to it that take their time."""
    spec = json.dumps({"entry": "f", "tests": [{"args": [1], "expected": 2}], "timeout_s": 5})
    task = Task(
        id="a",
        kind="code",
        prompt=(Message(role="user", content="f"),),
        verifier=VerifierSpec(use="unit_tests", spec_json=spec),
    )
    answers = [
        Trajectory(id=f"t{n}", task_id="a", steps=(Step(source=Source.AGENT, content=text_part(SLOW.format(n))),))
        for n in range(4)
    ]
    with Lake.open(tmp_path / "lake") as opened:
        opened.append(Stamp("r", "x", "0" * 32), {"tasks": [task], "trajectories": answers})
        yield opened


def begun(lake: Lake, folder: Path) -> tuple[Context, BatchRef]:
    """A run whose only batch judges the answers."""
    recipe = Recipe(name="test", verify=({"use": "unit_tests"},))
    ctx = Context(recipe, lake, f"run-{folder.name}", folder, folder / "out")
    register(ctx)
    planned = next(iter(plan_entry(ctx, Stage.VERIFY, 0, WorkingSet(trajectories=tuple(f"t{n}" for n in range(4))))))
    return ctx, planned.batches[0]


def started(ref: BatchRef, ctx: Context) -> tuple[threading.Thread, list[Any]]:
    """The batch under way in a thread, with answers in the sandbox, and what becomes of it."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(run_batch(ref))
        except Unavailable as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while ctx._sandbox is None:
        time.sleep(0.05)
    time.sleep(0.7)
    return thread, found


def test_what_is_in_flight_ends_before_its_sandbox_does(lake: Lake, tmp_path: Path) -> None:
    ctx, ref = begun(lake, tmp_path)
    thread, found = started(ref, ctx)
    forget(ctx)
    thread.join()
    assert isinstance(found[0], BatchSummary) and found[0].n == 4
    assert lake.sql("select kind, count(*) as n from verdicts group by kind").to_pylist() == [{"kind": "pass", "n": 4}]


def test_who_cannot_wait_leaves_it_to_the_next_run(lake: Lake, tmp_path: Path) -> None:
    ctx, ref = begun(lake, tmp_path)
    thread, found = started(ref, ctx)
    forget(ctx, patience_s=0)
    thread.join()
    assert isinstance(found[0], Unavailable)
    assert lake.sql("select count(*) as n from verdicts")["n"].to_pylist() == [0]
    assert lake.sql("select count(*) as n from decisions")["n"].to_pylist() == [0]
    again, ref = begun(lake, tmp_path)
    assert run_batch(ref).reasons == {"pass": 4}
    forget(again)


def test_no_batch_of_an_ended_run_begins(lake: Lake, tmp_path: Path) -> None:
    ctx, ref = begun(lake, tmp_path)
    forget(ctx)
    with pytest.raises(Unavailable, match="run_ended"):
        run_batch(ref)
    with pytest.raises(Unavailable, match="run_ended"), in_flight(ctx.run_id):
        pass


def test_code_that_runs_while_its_sandbox_closes_has_no_result() -> None:
    box = Sandbox.start(1)
    closing = threading.Timer(0.7, box.close)
    closing.start()
    with pytest.raises(Unavailable, match="closed"):
        box.run_python("import time\ntime.sleep(5)")
    closing.join()
    with pytest.raises(Unavailable, match="closed"):
        box.run_python("print(1)")


def test_a_closed_run_gets_no_second_context(lake: Lake, tmp_path: Path) -> None:
    ctx, _ = begun(lake, tmp_path)
    assert context_of(ctx.run_id, lambda: pytest.fail("it has one")) is ctx
    forget(ctx)
    with pytest.raises(Unavailable, match="run_ended"):
        context_of(ctx.run_id, lambda: ctx)
