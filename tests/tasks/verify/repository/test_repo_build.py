"""Repositories that must be built before they are tested: pinned, offline, and nothing of the tests can be made."""

# ruff: noqa: E501

import json
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.verifier.repo_tests import RepoTests

MAKE = "import json\nrows = [n * FACTOR for n in range(5)]\nopen('pkg/table.py', 'w').write(f'ROWS = {rows}\\n')\n"
SPEC: dict[str, Any] = {
    "files": {"pkg/__init__.py": "", "make.py": "FACTOR = 3\n" + MAKE},
    "tests": {"tests/test_a.py": "from pkg.table import ROWS\n\n\ndef test_rows():\n    assert ROWS[4] == 8\n"},
    "fail_to_pass": ["tests/test_a.py::test_rows"],
    "packages": ["pytest"],
    "build": [["python", "make.py"]],
}
GOLD = "```diff\n--- a/make.py\n+++ b/make.py\n@@ -1,2 +1,2 @@\n-FACTOR = 3\n+FACTOR = 2\n import json\n```"


def task(gold: str | None = None, **spec: Any) -> Task:
    whole = json.dumps({**SPEC, **spec})
    return Task(id="b", kind="repo", prompt=(), verifier=VerifierSpec(use="repo_tests", spec_json=whole), gold=gold)


def added(line: str) -> str:
    return (
        f"```diff\n--- a/make.py\n+++ b/make.py\n@@ -1,2 +1,3 @@\n-FACTOR = 3\n+FACTOR = 2\n+{line}\n import json\n```"
    )


def judge(ctx: Context, answer: str, **spec: Any) -> tuple[str, float | None, str, dict[str, Any]]:
    found = RepoTests(timeout_s=20).score(task(**spec), answer, ctx)
    evidence = json.loads(found.evidence_json)
    return found.kind.value, found.reward, evidence["reason"], evidence


def test_the_tests_run_on_what_the_build_made(bare: Context) -> None:
    kind, reward, reason, evidence = judge(bare, GOLD)
    assert (kind, reward, reason) == ("pass", 1.0, "pass"), evidence
    assert evidence["built"] == 3
    assert judge(bare, added("FACTOR = 4"))[:3] == ("fail", 0.0, "test_failed")
    assert prove(task(GOLD), bare).ok


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("raise SystemExit(3)", "fail", "build_failed"),
        ("import time; time.sleep(60)", "timeout", "build_wall"),
        ("while True: print('x' * 10000)", "fail", "build_failed"),
        ("import socket; socket.create_connection(('1.1.1.1', 443))", "refused", "build_network"),
        ("import urllib.request; urllib.request.urlopen('http://example.com')", "refused", "build_network"),
        ("import runpy; runpy.run_module('pip')", "refused", "build_network"),
        ("import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', '-U', 'x'], check=True)", "refused", "build_network"),
        ("open('conftest.py', 'w').write('x = 1')", "refused", "build_protected_file"),
        ("open('sitecustomize.py', 'w').write('x = 1')", "refused", "build_protected_file"),
        ("open('pytest.py', 'w').write('x = 1')", "refused", "build_protected_file"),
        ("import os; os.mkdir('tests'); open('tests/test_b.py', 'w').write('x = 1')", "refused", "build_protected_file"),
        ("import os; assert not os.path.exists('tests')", "pass", "pass"),
        ("import os; os.symlink('/opt/env', 'env'); os.mkfifo('fifo')", "pass", "pass"),
        ("open('/opt/env/pytest/__init__.py', 'a')", "fail", "build_failed"),
    ],
)  # fmt: skip
def test_a_build_that_goes_wrong_has_its_reason(bare: Context, line: str, kind: str, reason: str) -> None:
    found = judge(bare, added(line), timeout_s=4)
    assert (found[0], found[2]) == (kind, reason), found
    assert found[1] == (1.0 if kind == "pass" else 0.0)


@pytest.mark.parametrize(
    "command",
    [
        ["pip", "install", "-U", "x"],
        ["python", "-m", "pip", "install", "x"],
        ["/usr/bin/pip3", "install"],
        ["python", "-m", "pip.__main__"],
        ["uv", "sync"],
        [],
        ["cc", "-c", "x.c"],
    ],
)
def test_a_step_that_installs_or_cannot_run_is_the_tasks_fault(bare: Context, command: list[str]) -> None:
    with pytest.raises(RecordError, match="bad_spec"):
        judge(bare, GOLD, build=[command])


def test_another_lock_is_no_reward(bare: Context) -> None:
    kind, reward, reason, _ = judge(bare, GOLD, lock="0" * 32)
    assert (kind, reward, reason) == ("infrastructure", None, "not_locked")


def test_steps_run_one_after_another_with_the_named_tools(bare: Context) -> None:
    steps = [["sh", "-c", "sed -i s/3/2/ make.py"], ["python", "make.py"], ["sh", "-c", "test -f pkg/table.py"]]
    empty = "```diff\n--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+x\n```"
    found = judge(bare, empty, build=steps, tools=["sh", "sed"])
    assert found[:3] == ("pass", 1.0, "pass"), found
