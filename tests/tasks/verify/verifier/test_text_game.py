"""Text games: the walkthrough wins, and nothing else gets past the game."""

import json

import pytest

from schemas.task import Task, VerifierSpec
from schemas.trajectory import Step, ToolCall, Trajectory
from schemas.vocabulary import Source, Trust
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.text_game import TextGame, commands_of
from tasks.verify.workers.text_game import plain
from tasks.verify.workers.worker import pool

SPEC = {"seed": 3, "rooms": 3, "objects": 4, "quest_length": 3}


def task(gold: str | None = None) -> Task:
    return Task(
        id="a", kind="game", prompt=(), verifier=VerifierSpec(use="text_game", spec_json=json.dumps(SPEC)), gold=gold
    )


@pytest.mark.parametrize(
    ("command", "good"),
    [
        ("go east", True), ("take type X latchkey", True), ("unlock type X box with type X latchkey", True),
        ("save", False), ("SAVE", False), ("look. save", False), ("script", False), ("x" * 200, False), ("", False),
        ("go\neast", False), ("\x00", False), ("héé", False), ("   ", False), ("quit", False),
    ],
)  # fmt: skip
def test_only_commands_of_the_game_get_there(command: str, good: bool) -> None:
    assert plain(command) is good


def test_commands_are_lines() -> None:
    assert commands_of("1. go east\n\n> look\n- wait") == ["go east", "look", "wait"]
    assert commands_of("I try:\n```\ngo east\nlook\n```\nDone.") == ["go east", "look"]


@pytest.mark.slow
def test_the_walkthrough_wins_and_less_does_not(bare: Context) -> None:
    pytest.importorskip("textworld")
    steps = pool("tasks.verify.workers.text_game:walkthrough").call(SPEC, 200)
    assert len(steps) == 3
    gold = "\n".join(steps)
    judge = TextGame()
    won = judge.score(task(), f"```\nlook\n{gold}\n```", bare)
    assert (won.kind.value, won.reward, won.trust) == ("pass", 1.0, Trust.OUTSIDE)
    for answer, reason in (
        ("\n".join(steps[:-1]), "not_won"),
        (f"save\n{gold}", "not_a_command"),
        ("\x00\x01", "not_a_command"),
        ("look\n" * 501, "too_many_commands"),
    ):
        found = judge.score(task(), answer, bare)
        assert (found.reward, json.loads(found.evidence_json)["reason"]) == (0.0, reason)
    assert judge.score(task(), "", bare).kind.value == "unparsable"
    assert prove(task(gold), bare, runs=2).ok
    assert prove(task("look"), bare, runs=1).reason == "gold_fails"
    calls = [
        Step(
            source=Source.AGENT,
            tool_calls=(ToolCall(id=f"s{i}c0", name="act", arguments_json=json.dumps({"command": command})),),
        )
        for i, command in enumerate(steps)
    ]
    assert judge.check(task(), Trajectory(id="t", steps=tuple(calls)), bare).kind.value == "pass"
