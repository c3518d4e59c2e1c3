"""What a chat hides in its text is found where the evidence is there, and left, with a word, where it is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.vocabulary import Kind
from tasks.normalize.base import Importer
from tasks.normalize.guessing.guess import guess
from tasks.registry import build

XML = "I look.\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
BLOCK = "Like this:\n```bash\nls\n```"


def chat(said: list[str], answered: list[str], **more: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": "Do it.", **more}]
    for one, other in zip(said, answered, strict=True):
        turns += [{"role": "assistant", "content": one, **more}, {"role": "user", "content": other, **more}]
    return {"messages": [*turns, {"role": "assistant", "content": "Done."}]}


def read(path: Path, *records: dict[str, Any]) -> tuple[dict[str, Any], int, int, tuple[str, ...]]:
    """The options guessed, the calls and the results read with them, and the remarks."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    found = guess(path)
    importer = build(Kind.IMPORTER, {"use": found.format, "paths": [str(path)], **found.options})
    assert isinstance(importer, Importer)
    steps = [s for record in records for made in importer.read(record) for s in made.trajectory.steps]
    calls, results = sum(len(s.tool_calls) for s in steps), sum(len(s.results) for s in steps)
    return found.options, calls, results, found.notes


@pytest.mark.parametrize(
    ("lead", "pattern"),
    [
        ("OBSERVATION:\n", "OBSERVATION:\n?"),
        ("The output of the OS:\n", "The output of the OS:\n?"),
        ("Execution result: ", "Execution result: ?"),
        ("EXECUTION RESULT of [bash]:\n", r"EXECUTION RESULT of \[(?P<name>[^\]]*)\]:" + "\n?"),
        ("<returncode>0</returncode>\n", "(?=<returncode>)"),
        ("Result (step 1.5): ", r"Result \(step 1\.5\): ?"),
    ],
)
@pytest.mark.parametrize("said", [XML, BLOCK])
def test_a_common_lead_becomes_the_pattern(tmp_path: Path, said: str, lead: str, pattern: str) -> None:
    answers = [f"{lead}{word} lies here" for word in ("a", "b", "c")]
    options, calls, results, notes = read(tmp_path / "a.jsonl", chat([said] * 3, answers))
    assert options["observation"] == [pattern]
    assert (calls, results) == (3, 3)
    assert notes[0].startswith("3 of 3 turns after a call begin with")


def test_turns_of_more_fields_are_observed_too(tmp_path: Path) -> None:
    answers = ["Output:\n1", "Output:\n2", "Output:\n3"]
    _, calls, results, _ = read(tmp_path / "a.jsonl", chat([BLOCK] * 3, answers, mask=False))
    assert (calls, results) == (3, 3)


def test_an_agent_that_always_acts_is_answered_by_the_environment(tmp_path: Path) -> None:
    said = [f"THOUGHT: hm\nACTION: go to shelf {number}" for number in range(5)]
    answers = ["You see a mug.", "Nothing.", "On it lies a pen.", "You see a bed.", "It is dark."]
    options, calls, results, notes = read(tmp_path / "a.jsonl", chat(said, answers))
    assert options == {"calls": ["react:ACTION"], "observation": [""]}
    assert (calls, results) == (5, 5) and "5 of 5 turns" in notes[0]


def test_an_agent_that_acts_now_and_then_is_not_taken_for_one(tmp_path: Path) -> None:
    said = [XML, "Shall I go on?", XML, "And now?", XML]
    answers = ["fine", "yes do", "great work", "go", "thanks a lot"]
    options, calls, results, notes = read(tmp_path / "a.jsonl", chat(said, answers))
    assert options == {"calls": ["function_xml"]}
    assert (calls, results) == (3, 0) and "observation=" in notes[0]


def test_code_that_nobody_ran_stays_text(tmp_path: Path) -> None:
    said = [f"{BLOCK}\nThis lists the files; shall I explain it?"] * 5
    answers = ["no", "what about hidden ones?", "ok", "and by size?", "thanks"]
    options, calls, results, notes = read(tmp_path / "a.jsonl", chat(said, answers))
    assert (options, calls, results) == ({}, 0, 0)
    assert "stay text" in notes[0] and 'calls=["fenced:bash"]' in notes[0]


def test_how_a_user_speaks_is_no_lead(tmp_path: Path) -> None:
    record = chat([XML, "Hm.", XML, "Ah."], ["Anna: fine", "Anna: go on", "Anna: good", "Anna: bye"])
    record["messages"][0]["content"] = "Anna: please look"
    options, *_ = read(tmp_path / "a.jsonl", record)
    assert "observation" not in options


def test_markup_that_one_turn_talks_about_is_not_how_calls_are_written(tmp_path: Path) -> None:
    said = [BLOCK] * 8 + ["It prints <function=main> there."]
    answers = [f"Output:\n{number}" for number in range(9)]
    options, calls, results, _ = read(tmp_path / "a.jsonl", chat(said, answers))
    assert options["calls"] == ["fenced:bash"] and (calls, results) == (8, 8)


def test_prose_with_an_action_is_no_call(tmp_path: Path) -> None:
    said = ["Minutes.\nAction: Bob calls Ann", *["Yes."] * 9]
    options, *_ = read(tmp_path / "a.jsonl", chat(said, ["ok"] * 10))
    assert options == {}


def test_other_fields_and_roles_of_turns_are_found(tmp_path: Path) -> None:
    turns = [{"role": "system", "system_prompt": "Use the shell.", "text": None}, {"role": "user", "text": "Do it."}]
    for number in range(5):
        turns += [{"role": "ai", "text": f"So:\n```\nls {number}\n```"}, {"role": "user", "text": f"{number}\n$"}]
    options, calls, results, _ = read(tmp_path / "a.jsonl", {"trajectory": turns})
    assert (calls, results) == (5, 5)
    assert (options["content_key"], options["roles"]) == ("text", {"ai": "agent"})


def test_sharegpt_is_looked_at_too(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "Buy it."}]
    for number in range(3):
        turns += [
            {"from": "gpt", "value": f"Thought: hm\nAction: click[b{number}]"},
            {"from": "human", "value": f"Observation: page {number}"},
        ]
    options, calls, results, _ = read(tmp_path / "a.jsonl", {"conversations": turns})
    assert options == {"calls": ["react"], "observation": ["Observation: ?"]} and (calls, results) == (3, 3)
