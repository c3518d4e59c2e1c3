"""Wider tasks: one that needs the answers of two proven programming tasks at once.

    [[synthesize]]
    use = "evolve_width"
    limit = 20

After TaskCraft's width-based extension. Two functions with the same parameters become one that returns both results.
Its hidden tests are the arguments that both tasks test already, its gold solution calls both gold solutions, and it
proves itself like every task: nothing about it has to be taken on trust.
"""

import ast
import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from schemas.ids import canonical_json, content_id
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Provenance
from tasks.calls import FENCE
from tasks.operator import Item, Plan, WorkingSet
from tasks.synthesize.base import Draft, Drafts, Synthesizer, identified, prompt
from tasks.synthesize.rewrite import split_prompt

if TYPE_CHECKING:
    from tasks.context import Context


class Function(NamedTuple):
    """A programming task taken apart: parameters as text, tests (arguments as JSON text → expected value)."""

    task: Task
    entry: str
    parameters: str
    statement: str
    code: str
    tests: dict[str, Any]
    tolerance: float | None


class EvolveWidth(Synthesizer, frozen=True, kw_only=True):
    """Pairs of programming tasks as one task.

    min_tests: how many arguments both tasks must have in common among their tests.
    limit: at most so many pairs, in the order of the working set; 0: all.
    """

    prompts: ClassVar[tuple[str, ...]] = ("program", "width")
    inert: ClassVar[frozenset[str]] = frozenset({"limit", "min_tests"})

    min_tests: int = 3
    limit: int = 0

    def __post_init__(self) -> None:
        if self.min_tests < 2:
            raise ValueError(f"min_tests must be at least 2, not {self.min_tests}")

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per pair of tasks with the same parameters, enough shared tests and not only equal results."""
        known = [one for one in map(function_of, ctx.lake.tasks(inputs.tasks)) if one is not None]
        items = [
            Item(id=content_id("item", "evolve_width", a.task.id, b.task.id), ref=a.task.id, params={"with": b.task.id})
            for a, b in itertools.combinations(known, 2)
            if a.parameters == b.parameters and a.entry != b.entry and len(_shared(a, b)) >= self.min_tests
        ]
        return Plan(items=tuple(items[: self.limit] if self.limit else items), n_seen=len(inputs.tasks))

    def draft(self, items: Sequence[Item], ctx: "Context") -> Drafts:
        """The wider task of each pair."""
        fingerprint = self.fingerprint(ctx)
        ids = list(dict.fromkeys(ref for item in items for ref in (item.ref, item.params["with"])))
        tasks = dict(zip(ids, ctx.lake.tasks(ids), strict=True))
        drafts = []
        for item in items:
            first, second = function_of(tasks[item.ref]), function_of(tasks[item.params["with"]])
            assert first is not None and second is not None
            drafts.append(Draft(item, identified(both(first, second), fingerprint)))
        return Drafts(drafts=drafts)


def function_of(task: Task) -> Function | None:
    """The parts of a task with unit tests of one plain function and a gold solution; None for any other task."""
    if task.verifier.use != "unit_tests" or task.gold is None:
        return None
    spec = json.loads(task.verifier.spec_json)
    statement, rest = split_prompt(task.prompt[-1].content)
    shown, golds = FENCE.findall(rest), FENCE.findall(task.gold)
    header = _header(shown[0]) if len(shown) == 1 else None
    plain = set(spec) <= {"entry", "tests", "tolerance"} and not any("kwargs" in test for test in spec["tests"])
    if header is None or header.name != spec["entry"] or len(golds) != 1 or not plain:
        return None
    tests = {canonical_json(test.get("args", [])): test.get("expected") for test in spec["tests"]}
    parameters = ast.unparse(header.args)
    return Function(task, spec["entry"], parameters, statement, golds[0].strip(), tests, spec.get("tolerance"))


def both(first: Function, second: Function) -> Task:
    """The task that needs both functions' results, without an id."""
    entry = f"{first.entry}_and_{second.entry}"
    signature = f"def {entry}({first.parameters}) -> list"
    spec: dict[str, Any] = {
        "entry": entry,
        "tests": [
            {"args": json.loads(args), "expected": [first.tests[args], second.tests[args]]}
            for args in _shared(first, second)
        ],
    }
    tolerances = [each for each in (first.tolerance, second.tolerance) if each is not None]
    if tolerances:
        spec["tolerance"] = max(tolerances)
    gold = (
        f"{first.code}\n\n\n{second.code}\n\n\n"
        f"def {entry}(*args):\n    return [{first.entry}(*args), {second.entry}(*args)]"
    )
    statement = prompt("width", first=first.statement, second=second.statement)
    levels = [task.difficulty for task in (first.task, second.task) if task.difficulty is not None]
    return Task(
        id="",
        kind=first.task.kind,
        name=entry,
        prompt=(Message(role="user", content=prompt("program", statement=statement, signature=signature)),),
        verifier=VerifierSpec(use="unit_tests", spec_json=canonical_json(spec)),
        gold=f"```python\n{gold}\n```",
        # Both must be right: as hard as the harder one, and a step more.
        difficulty=round(min(1.0, max(levels) + 0.1), 2) if levels else None,
        parents=(first.task.id, second.task.id),
        provenance=Provenance(reader="evolve_width", record=entry),
    )


def _shared(first: Function, second: Function) -> list[str]:
    return sorted(first.tests.keys() & second.tests.keys())


def _header(block: str) -> ast.FunctionDef | None:
    try:
        body = ast.parse(f"{block.rstrip()} ...").body
    except (SyntaxError, ValueError):
        return None
    return body[0] if len(body) == 1 and isinstance(body[0], ast.FunctionDef) else None
