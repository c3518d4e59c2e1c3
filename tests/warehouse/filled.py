"""Rows for the tests of this folder."""

from schemas.ids import content_id, scope_hash
from schemas.rows import DeadLetter, PlanMember, Ruling, RunEvent, Verdict
from schemas.task import Message, Task, VerifierSpec
from schemas.trajectory import Policy, Step, ToolCall, ToolResult, Trajectory, text_part
from schemas.vocabulary import Decision, Source, VerdictKind
from warehouse.lake import Lake, Stamp

STAMP = Stamp("run1", "some_operator", "f" * 32)


def make_tasks(count: int, start: int = 0) -> list[Task]:
    return [
        Task(
            id=content_id("task", number),
            kind="arithmetic",
            prompt=(Message(role="user", content=f"{number} + 1 = ?"),),
            verifier=VerifierSpec(use="answer"),
            gold=str(number + 1),
        )
        for number in range(start, start + count)
    ]


def make_trajectories(count: int, start: int = 0) -> list[Trajectory]:
    return [
        Trajectory(
            id=content_id("trajectory", number),
            task_id=content_id("task", number),
            parents=(content_id("task", number),),
            policy=Policy(teacher="local", model="small"),
            steps=(
                Step(source=Source.USER, content=text_part(f"{number} + 1 = ?")),
                Step(
                    source=Source.AGENT,
                    tool_calls=(
                        ToolCall(id="s1c0", name="python", arguments='{"code": "1"}', arguments_json='{"code":"1"}'),
                        ToolCall(id="s1c1", name="python", arguments="{}", arguments_json="{}"),
                    ),
                    results=(
                        ToolResult(call_id="s1c1", content=text_part("second")),
                        ToolResult(call_id="s1c0", content=text_part("first")),
                    ),
                ),
                Step(source=Source.AGENT, content=text_part(str(number + 1))),
            ),
        )
        for number in range(start, start + count)
    ]


def fill(lake: Lake, items: int = 20) -> list[str]:
    """A lake with one curate entry over `items` tasks: 9 kept, 5 dropped, 2 dead, the rest pending."""
    tasks, trajectories = make_tasks(items), make_trajectories(items)
    ids = [trajectory.id for trajectory in trajectories]
    whole = scope_hash(ids)
    rulings = [
        Ruling(
            id=content_id("ruling", STAMP.fingerprint, item, ""),
            item_id=item,
            stage="curate",
            decision=Decision.KEEP if number < 9 else Decision.DROP,
            reason="ok" if number < 9 else "short",
            outputs=(item,) if number < 9 else (),
        )
        for number, item in enumerate(ids[:14])
    ]
    lake.append(
        STAMP,
        {
            "tasks": tasks,
            "trajectories": trajectories,
            "verdicts": [
                Verdict(
                    id=content_id("verdict", item),
                    trajectory_id=item,
                    verifier="answer",
                    kind=VerdictKind.PASS if number % 2 else VerdictKind.FAIL,
                    reward=float(number % 2),
                    parents=(item,),
                )
                for number, item in enumerate(ids)
            ],
            "plans": [PlanMember(id=content_id("plan", whole, item), scope_hash=whole, item_id=item) for item in ids],
            "decisions": rulings,
            # The first of the three has a ruling by now, so it counts as decided.
            "dead_letters": [
                DeadLetter(id=content_id("dead", i), item_id=i, stage="curate", source="s", position="1", reason="torn")
                for i in ids[13:16]
            ],
            "runs": [
                RunEvent(
                    id=content_id("run", "run1", "curate"),
                    event="operator",
                    recipe="r",
                    stage="curate",
                    name="some_operator",
                    scope_hash=whole,
                    unit="kept",
                    n_seen=items,
                    n_in=items,
                    n_inputs=items,
                    n_outputs=9,
                )
            ],
        },
    )
    return ids
