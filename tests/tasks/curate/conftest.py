"""A real lake with trajectories made on the spot, and a way to run a selector over them as the runner does."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from schemas.ids import content_id, with_id
from schemas.recipe import Recipe
from schemas.rows import Verdict
from schemas.trajectory import Policy, Step, ToolCall, ToolResult, Trajectory, text_part
from schemas.vocabulary import Decision, Source, VerdictKind
from tasks.context import Context
from tasks.curate.base import Selector
from tasks.operator import Outcome, WorkingSet
from warehouse.lake import Lake, Stamp


class Bench:
    """A lake, a context, and short ways to fill and ask them."""

    def __init__(self, root: Path, lake: Lake) -> None:
        self.lake = lake
        self.ctx = Context(Recipe(name="test"), self.lake, "run", root, root / "out")

    def add(self, *trajectories: Trajectory) -> list[str]:
        """Appends trajectories; their ids, in order."""
        self.lake.append(Stamp("run", "test", "f"), {"trajectories": trajectories})
        return [trajectory.id for trajectory in trajectories]

    def judge(self, trajectory_id: str, kind: VerdictKind, reward: float | None = None, verifier: str = "v") -> str:
        """Appends a verdict; its id."""
        key = content_id("verdict", trajectory_id, verifier, kind, reward)
        row = Verdict(id=key, trajectory_id=trajectory_id, verifier=verifier, kind=kind, reward=reward)
        self.lake.append(Stamp("run", verifier, "f"), {"verdicts": [row]})
        return key

    def select(
        self, selector: Selector, ids: Sequence[str], *, all_ids: Sequence[str] = (), store: bool = True
    ) -> dict[str, Outcome]:
        """Plans and runs the selector over `ids` (of `all_ids`), stores its side rows; outcomes by trajectory id."""
        plan = selector.plan(WorkingSet(trajectories=tuple(all_ids or ids), kept=tuple(ids)), self.ctx)
        result = selector.run(plan.items, self.ctx)
        assert len(result.outcomes) + len(result.dead) + len(result.pending) == len(plan.items)
        if store:
            rows = {table: batch for table, batch in result.rows.items() if len(batch)}
            self.lake.append(Stamp("run", selector.plugin_id(), selector.fingerprint(self.ctx)), rows)
        refs = {item.id: item.ref for item in plan.items}
        return {refs[outcome.item_id]: outcome for outcome in result.outcomes}

    def kept(self, selector: Selector, ids: Sequence[str], **more: Any) -> list[str]:
        """The ids that the selector keeps, in the order of `ids`."""
        outcomes = self.select(selector, ids, **more)
        return [ref for ref in ids if outcomes[ref].decision is Decision.KEEP]


@contextmanager
def _opened(root: Path) -> Iterator[Bench]:
    lake = Lake.open(root / "lake")
    made = Bench(root, lake)
    try:
        yield made
    finally:
        made.ctx.close()
        lake.close()


@pytest.fixture(scope="session")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    lake = Lake.open(tmp_path_factory.mktemp("shared") / "lake")
    yield lake
    lake.close()


@pytest.fixture
def bench(tmp_path: Path, shared_lake: Lake) -> Iterator[Bench]:
    """A lake that all tests share; `make` gives each test trajectories of its own."""
    made = Bench(tmp_path, shared_lake)
    yield made
    made.ctx.close()


@pytest.fixture
def fresh_bench(tmp_path: Path) -> Iterator[Bench]:
    """A lake of its own, for tests that count its rows."""
    with _opened(tmp_path) as made:
        yield made


@pytest.fixture
def new_bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], AbstractContextManager[Bench]]:
    return lambda: _opened(tmp_path_factory.mktemp("bench"))


def make_trajectory(
    prompt: str,
    *actions: str | tuple[str, str, str | None],
    task: str | None = None,
    teacher: str | None = "t",
    sample: int = 0,
    system: str = "",
    finish: str | None = "stop",
    **more: Any,
) -> Trajectory:
    """A trajectory: an action is the agent's words, or a call (name, arguments, result or None for no result)."""
    steps = [Step(source=Source.SYSTEM, content=text_part(system))] if system else []
    if prompt:
        steps.append(Step(source=Source.USER, content=text_part(prompt)))
    for action in actions:
        if isinstance(action, str):
            steps.append(Step(source=Source.AGENT, content=text_part(action), finish_reason=finish))
            continue
        name, arguments, result = action
        call = ToolCall(id=f"s{len(steps)}c0", name=name, arguments=arguments, arguments_json=arguments)
        results = () if result is None else (ToolResult(call_id=call.id, content=text_part(result)),)
        steps.append(Step(source=Source.AGENT, tool_calls=(call,), results=results))
    bare = Trajectory(
        id="",
        steps=tuple(steps),
        task_id=task,
        parents=(task,) if task else (),
        sample_index=sample,
        policy=Policy(teacher=teacher),
        **more,
    )
    return with_id(bare, "f")


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[..., Trajectory]:
    """Makes trajectories whose ids no other test has."""

    def made(prompt: str, *actions: Any, **more: Any) -> Trajectory:
        return make_trajectory(prompt, *actions, **{"source_id": request.node.nodeid, **more})

    return made
