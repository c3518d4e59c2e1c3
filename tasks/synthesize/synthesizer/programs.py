"""Programming tasks from a folder of TOML files: statement, signature, hidden tests, gold solution.

    [[synthesize]]
    use = "programs"
    levels = [1, 2]

One file is one task:

    entry = "double"
    level = 1                                  # 1 (one expression) to 5 (a known algorithm)
    signature = "def double(n: int) -> int"
    statement = "Return the number n times 2."
    gold = '''
    def double(n):
        return n * 2
    '''
    tests = [{args = [3], expected = 6}, {args = [0], expected = 0}, {args = [-4], expected = -8}]

`expected` left out means null; `tolerance` (absolute) compares numbers that are not whole.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from schemas.errors import RecordError, UserError
from schemas.ids import canonical_json, content_id, digest
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Provenance
from schemas.vocabulary import Stage
from tasks.operator import Item, Plan, WorkingSet, dead, drop
from tasks.synthesize.base import Draft, Drafts, Synthesizer, identified, prompt
from tasks.synthesize.program_file import Program, parse_program, program_files

if TYPE_CHECKING:
    from tasks.context import Context

_SHIPPED = Path(__file__).parent.parent / "programs"
_HARDEST = 5


class Programs(Synthesizer, frozen=True, kw_only=True):
    """Programming tasks checked by hidden unit tests that run in the sandbox.

    path: a folder of TOML files; empty: the tasks that come with Gristmill.
    levels: take only programs of these levels; empty: all.
    names: take only programs with these entry names; empty: all.
    """

    path: str = ""
    levels: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    prompts: ClassVar[tuple[str, ...]] = ("program",)
    # An item is a file's content: where it lies and what else is chosen cannot change its task.
    inert: ClassVar[frozenset[str]] = frozenset({"path", "levels", "names"})

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """One item per file that the options choose; a file that is no program is an item too, to be counted."""
        files = program_files(ctx.path(self.path) if self.path else _SHIPPED)
        items: dict[str, Item] = {}
        known: set[str] = set()
        for file in files:
            raw = file.read_bytes()
            try:
                program: Program | None = parse_program(raw)
            except RecordError:
                program = None
            if program is not None:
                known.add(program.entry)
                if self.levels and program.level not in self.levels:
                    continue
                if self.names and program.entry not in self.names:
                    continue
            item_id = content_id("item", "programs", digest(raw))
            text = raw.decode("utf-8", "replace")
            items.setdefault(item_id, Item(id=item_id, ref=item_id, params={"file": file.name, "text": text}))
        missing = sorted(set(self.names) - known)
        if missing:
            raise UserError(f"No program named {', '.join(map(repr, missing))}.", f"Known: {', '.join(sorted(known))}.")
        return Plan(items=tuple(items.values()), n_seen=len(files))

    def draft(self, items: Sequence[Item], ctx: "Context") -> Drafts:
        """The task of each file. A malformed file is a dead letter; tests that a constant passes are a drop."""
        fingerprint = self.fingerprint(ctx)
        drafts, outcomes, letters = [], [], []
        for item in items:
            try:
                program = parse_program(item.params["text"].encode())
            except RecordError as error:
                letters.append(
                    dead(item, Stage.SYNTHESIZE, error.reason, error.detail, source=item.params["file"], retry=False)
                )
                continue
            if len({canonical_json(test.expected) for test in program.tests}) < 2:
                evidence = {"entry": program.entry, "tests": len(program.tests)}
                outcomes.append(drop(item, "constant_tests", evidence=evidence))
                continue
            task = identified(program_task(program, item.params["file"]), fingerprint)
            drafts.append(Draft(item, task, {"level": program.level}))
        return Drafts(drafts=drafts, outcomes=outcomes, dead=letters)


def program_task(program: Program, file: str = "") -> Task:
    """The task of a program, without an id: the prompt shows statement and signature, the tests stay hidden."""
    spec: dict[str, Any] = {
        "entry": program.entry,
        "tests": [{"args": test.args, "expected": test.expected} for test in program.tests],
    }
    if program.tolerance is not None:
        spec["tolerance"] = program.tolerance
    shown = prompt("program", statement=program.statement.strip(), signature=program.signature)
    return Task(
        id="",
        kind="code",
        name=program.entry,
        prompt=(Message(role="user", content=shown),),
        verifier=VerifierSpec(use="unit_tests", spec_json=canonical_json(spec)),
        gold=f"```python\n{program.gold.strip()}\n```",
        difficulty=round(program.level / _HARDEST, 2),
        provenance=Provenance(dataset="programs", file=file or None, record=program.entry, reader="programs"),
    )
