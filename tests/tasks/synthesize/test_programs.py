"""Program tasks: their files, what is kept of a folder of them, and that all shipped ones prove themselves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import RecordError, UserError
from schemas.ids import canonical_json
from schemas.vocabulary import Stage
from tasks.synthesize.program_file import parse_program, program_files
from tasks.synthesize.synthesizer.programs import _SHIPPED, program_task

GOOD = """
entry = "double"
signature = "def double(n: int) -> int"
statement = "Return the number n times 2."
gold = '''
def double(n):
    return n * 2
'''
"""
TESTS = "tests = [{args = [3], expected = 6}, {args = [0], expected = 0}, {args = [-4], expected = -8}]\n"
GOOD += TESTS


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_the_prompt_shows_statement_and_signature_and_hides_tests_and_gold() -> None:
    task = program_task(parse_program(GOOD.encode()))
    (message,) = task.prompt
    assert message.content == (
        "Return the number n times 2.\n\nWrite this Python function:\n\n```python\ndef double(n: int) -> int:\n```"
    )
    assert task.gold == "```python\ndef double(n):\n    return n * 2\n```"
    assert '"expected":-8' in task.verifier.spec_json


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("entry = ", "not_toml"),
        ("\ufeffentry = 1", "not_toml"),
        (changed('statement = "Return the number n times 2."', ""), "not_a_program"),
        (changed('entry = "double"', 'entry = "double"\nexpectd = 1'), "not_a_program"),
        (changed("args = [3]", "args = [1979-05-27]"), "not_a_program"),
        (changed("args = [3]", "args = [nan]"), "not_a_program"),
        (changed('entry = "double"', 'entry = "triple"'), "bad_signature"),
        (changed("def double(n: int) -> int", "class double"), "bad_signature"),
        (changed("def double(n: int) -> int", "def double(n: int -> int"), "bad_signature"),
        (changed(TESTS, "tests = []"), "no_tests"),
    ],
)
def test_a_file_that_is_no_program_says_why(text: str, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_program(text.encode())
    assert caught.value.reason == reason


def test_a_folder_is_proven_file_by_file(run_entry: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    files = {
        "good": GOOD,
        "wrong_gold": changed("return n * 2", "return n + 3"),
        "raising_gold": changed("return n * 2", "raise ValueError(n)"),
        "flaky_gold": changed("    return n * 2", "    import os\n    return n * 2 + (os.urandom(1)[0] % 2)"),
        "hash_order": changed("    return n * 2", "    return n * 2 + hash('seed') % 97"),
        "echo": changed("return n * 2", "return n").replace("[3]", "[6]").replace("[-4]", "[-8]"),
        "constant": changed("expected = 6", "expected = 0").replace("expected = -8", "expected = 0"),
        "broken": "entry = ",
    }
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    (folder / "copy.toml").write_text(GOOD, encoding="utf-8")
    ran = run_entry(Stage.SYNTHESIZE, {"use": "programs", "path": "mine"})
    assert (ran.report.n_seen, ran.report.n_in) == (9, 8)
    reasons = dict(ran.report.reasons)
    # A random gold passes, fails or does both: whichever, it is not kept.
    random = sum(reasons.pop(why, 0) for why in ("unproven:flaky", "unproven:gold_fails"))
    assert random == 4
    assert reasons == {"ok": 1, "unproven:cheat_passes:echo": 1, "constant_tests": 1, "not_toml": 1}
    (task,) = ran.ctx.lake.tasks(ran.after.tasks)
    assert (task.name, task.kind, task.difficulty) == ("double", "code", 0.2)
    again = run_entry(Stage.SYNTHESIZE, {"use": "programs", "path": "mine"})
    assert again.after == ran.after
    (folder / "added.toml").write_text(GOOD.replace("double", "twice"), encoding="utf-8")
    grown = run_entry(Stage.SYNTHESIZE, {"use": "programs", "path": "mine", "names": ["twice", "double"]})
    assert set(grown.after.tasks) > set(ran.after.tasks)


def test_every_shipped_program_proves_itself(run_entry: Callable[..., Any]) -> None:
    files = program_files(_SHIPPED)
    ran = run_entry(Stage.SYNTHESIZE, {"use": "programs"})
    assert ran.report.n_in == len(files) >= 36
    assert ran.report.reasons == {"ok": len(files)}
    tasks = ran.ctx.lake.tasks(ran.after.tasks)
    assert {task.difficulty for task in tasks} == {0.2, 0.4, 0.6, 0.8, 1.0}


def test_shipped_files_are_named_after_their_function_and_say_something_new() -> None:
    programs = {file.stem: parse_program(file.read_bytes()) for file in program_files(_SHIPPED)}
    assert all(name == program.entry for name, program in programs.items())
    assert len({program.statement for program in programs.values()}) == len(programs)
    for program in programs.values():
        assert "\n" not in program.statement, program.entry
        assert len(program.tests) >= 4, program.entry
        arguments = [canonical_json(test.args) for test in program.tests]
        assert len(set(arguments)) == len(arguments), program.entry


def test_options_choose_programs_and_unknown_names_are_refused(run_entry: Callable[..., Any], tmp_path: Path) -> None:
    ran = run_entry(Stage.SYNTHESIZE, {"use": "programs", "levels": [1], "names": ["add", "square", "edit_distance"]})
    assert sorted(task.name for task in ran.ctx.lake.tasks(ran.after.tasks)) == ["add", "square"]
    with pytest.raises(UserError, match="subtract_all"):
        run_entry(Stage.SYNTHESIZE, {"use": "programs", "names": ["subtract_all"]})
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UserError, match="No program tasks"):
        run_entry(Stage.SYNTHESIZE, {"use": "programs", "path": "nothing"})
