"""Judges a patch to a repository by the repository's own tests (fail-to-pass and pass-to-pass).

A task's specification (JSON):

    {"files": {"pkg/a.py": "…"}, "tests": {"tests/test_a.py": "…"}, "runner": "pytest", "packages": ["pytest"],
     "fail_to_pass": ["tests/test_a.py::test_x"], "pass_to_pass": ["tests/test_a.py::test_y"],
     "protected": ["data/*"]}

Also, where the repository must be built first (tasks/verify/repository/build.py): "build": [["python", "make.py"]],
"tools": binaries for it, and "lock": the hash of the environment that the task was made with; another one here is
an infrastructure error.

The answer is a unified diff. Test runner and candidate share a process here, so "passed" is a message that the
candidate could write: the verdict's trust is `inside`. What makes that hard: every test id runs in a fresh jail,
tests and configuration are pristine and a patch may not touch them, exactly the expected ids must pass, exit codes
mean nothing, and canaries are mixed in: expected tests whose demand was made false. Where one passes, and the real one
passes too, the verdict is refused.
"""

import fnmatch
import secrets
import sys
from collections.abc import Container, Mapping
from functools import lru_cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from schemas.errors import RecordError
from schemas.ids import digest
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import Trust, VerdictKind
from tasks.sandbox.results import Call, CallResult, Limits, RunKind
from tasks.verify.answers.extract import diff_text
from tasks.verify.base import Judgement, infrastructure, spec_of
from tasks.verify.execution import ExecutionVerifier
from tasks.verify.ranges import Seconds
from tasks.verify.repository import build as repo_build
from tasks.verify.repository import canary, patch

if TYPE_CHECKING:
    from tasks.context import Context

_KINDS = {
    RunKind.TIMEOUT: VerdictKind.TIMEOUT,
    RunKind.CPU: VerdictKind.TIMEOUT,
    RunKind.MEMORY: VerdictKind.MEMORY,
    RunKind.REFUSED: VerdictKind.REFUSED,
}
# What decides how tests run, or runs before them.
_PROTECTED = (
    *("test_*.py", "*_test.py", "tests/*", "test/*", "*/tests/*", "*/test/*", "conftest.py", "*/conftest.py"),
    *("pytest.ini", "tox.ini", "setup.cfg", "setup.py", "pyproject.toml", "noxfile.py"),
    *("sitecustomize.py", "usercustomize.py", "*.pth", "*.pyc", "*.so", ".*", "*/.*"),
)
# Every function of the module does nothing.
_STUB = """
for _name, _value in list(globals().items()):
    if callable(_value) and getattr(_value, "__module__", "") == __name__:
        globals()[_name] = lambda *args, **kwargs: None
"""
# Every test that names something of the module counts as passed without being run.
_SKIP = {
    "pytest": """
import _pytest.python as _python
_run = _python.Function.runtest
def _skip(self):
    space, names = self.obj.__globals__, self.obj.__code__.co_names
    if not any(getattr(space.get(name), "__module__", "") == __name__ for name in names):
        return _run(self)
_python.Function.runtest = _skip
""",
    "unittest": """
import unittest.case as _case
_run = _case.TestCase._callTestMethod
def _skip(self, method):
    space, names = method.__func__.__globals__, method.__func__.__code__.co_names
    if not any(getattr(space.get(name), "__module__", "") == __name__ for name in names):
        return _run(self, method)
_case.TestCase._callTestMethod = _skip
""",
}
_RUNNERS = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "py")


class Spec(Base, frozen=True):
    """The repository, its pristine tests, and which test ids must pass after the patch."""

    files: dict[str, str]
    tests: dict[str, str]
    fail_to_pass: list[str]
    pass_to_pass: list[str] = []
    runner: Literal["pytest", "unittest"] = "pytest"
    packages: list[str] = []
    protected: list[str] = []
    timeout_s: Seconds | None = None
    lock: str = ""
    build: list[list[str]] = []
    tools: list[str] = []


class RepoTests(ExecutionVerifier, frozen=True, kw_only=True):
    """Applies the patch and runs every expected test, each in its own jail, with canaries among them.

    canaries: how many tests with a false demand are mixed in. timeout_s, cpu_s, memory_mb: limits of one test, and of
    each step of a build.
    """

    version: ClassVar[int] = 2

    canaries: int = 2
    timeout_s: float = 60.0
    cpu_s: float = 30.0
    memory_mb: int = 1024

    def subject(self, task: Task, completion: str) -> str | None:
        """The patch."""
        return diff_text(completion)

    def environment(self, task: Task, ctx: "Context") -> str:
        """Interpreter, packages, backend and mode of the sandbox."""
        spec = spec_of(task, Spec)
        return f"{ctx.sandbox.mode}/{ctx.sandbox.version(spec.packages, spec.tools)}"

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """Refuses patches to protected files, then runs the tests until one fails."""
        spec = spec_of(task, Spec)
        expected = [*spec.fail_to_pass, *spec.pass_to_pass]
        if not spec.fail_to_pass or not spec.tests:
            raise RecordError("bad_spec", "repo_tests: tests and fail_to_pass are needed")
        repo_build.check(spec.build)
        wrong = repo_build.locked(ctx.sandbox, spec.packages, spec.lock)
        if wrong is not None:
            return infrastructure(wrong.reason, wrong.detail)
        text = diff_text(completion)
        evidence: dict[str, Any] = {"sandbox": ctx.sandbox.version(spec.packages), "expected": len(expected)}
        try:
            changes = patch.parse(text or "")
            touched = sorted({path for change in changes for path in (change.before, change.after) if path})
            bad = [path for path in touched if protected(path, spec)]
            if bad:
                return _judged(VerdictKind.REFUSED, "protected_file", {**evidence, "files": bad[:10]})
            files = patch.apply(spec.files, changes)
        except patch.PatchError as error:
            kind = VerdictKind.FAIL if error.reason == "does_not_apply" else VerdictKind.UNPARSABLE
            return _judged(kind, error.reason, {**evidence, "detail": error.detail})
        evidence["patch_sha"] = digest(text or "")
        whole: dict[str, str | bytes] = {**files}
        if spec.build:
            built = repo_build.build(
                ctx.sandbox,
                files,
                spec.build,
                self._limits(spec),
                spec.packages,
                spec.tools,
                lambda path: shadows(path, files) or (not path.endswith(".so") and protected(path, spec)),
            )
            if isinstance(built, repo_build.Stopped):
                if built.kind is VerdictKind.INFRASTRUCTURE:
                    return infrastructure(built.reason, built.detail)
                return _judged(built.kind, built.reason, {**evidence, "detail": built.detail})
            whole, evidence["built"] = built, len(built)
        planted = canary.plant(spec.tests, spec.fail_to_pass, spec.pass_to_pass, spec.runner, self.canaries)
        order = [(test_id, spec.tests, False) for test_id in expected]
        for test_id, twisted in planted:
            order.insert(secrets.randbelow(len(order) + 1), (test_id, twisted, True))
        passed: list[str] = []
        for test_id, tests, false in order:
            found = self._run(spec, {**whole, **tests}, test_id, ctx)
            if false and found.kind is RunKind.OK and found.value == "passed":
                # A wrong value can meet a false demand; no code can meet both demands.
                found = self._run(spec, {**whole, **spec.tests}, test_id, ctx)
                if found.kind is RunKind.OK and found.value == "passed":
                    return _judged(VerdictKind.REFUSED, "canary_passed", {**evidence, "passed": len(passed)})
            elif false and found.kind is not RunKind.INFRASTRUCTURE and found.kind is not RunKind.REFUSED:
                continue
            if found.kind is RunKind.INFRASTRUCTURE:
                return infrastructure(found.reason, found.detail)
            if found.kind is not RunKind.OK or found.value != "passed":
                kind = _KINDS.get(found.kind, VerdictKind.FAIL)
                reason = str(found.value) if found.kind is RunKind.OK else found.reason
                at = {"test": test_id, "passed": len(passed), "detail": found.detail}
                return _judged(kind, f"test_{reason}"[:60], {**evidence, **at})
            passed.append(test_id)
        if self.canaries and not planted:
            raise RecordError("bad_spec", "repo_tests: none of the expected tests can be made a canary")
        return _judged(VerdictKind.PASS, "pass", {**evidence, "passed": len(passed), "canaries": len(planted)})

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, edits of tests and start-up files, and source files that end the process or skip their tests."""
        spec = spec_of(task, Spec)
        cheats = {
            "empty": "",
            "start_up": _new_file("sitecustomize.py", "import os"),
            "shadow": _new_file("pytest.py", ""),
        }
        test = next(iter(spec.tests))
        cheats["edit_tests"] = _new_file(test, "def test_nothing(): pass")
        for path, content in spec.files.items():
            if path.endswith(".py") and content and not protected(path, spec):
                cheats["exit"] = _first_line(path, content, "__import__('os')._exit(0)")
                cheats["stub"] = _last_lines(path, content, _STUB)
                cheats["skip"] = _last_lines(path, content, _SKIP[spec.runner])
                break
        return cheats

    def _limits(self, spec: Spec) -> Limits:
        seconds = spec.timeout_s or self.timeout_s
        return Limits(
            wall_s=seconds,
            total_s=max(120.0, seconds * (len(spec.build) + 1)),
            cpu_s=self.cpu_s,
            memory_mb=self.memory_mb,
            output_kb=1024,
        )

    def _run(self, spec: Spec, files: Mapping[str, str | bytes], test_id: str, ctx: "Context") -> CallResult:
        limits = self._limits(spec)
        call = Call(entry="run", args=[test_id, spec.runner])
        ran = ctx.sandbox.call_functions(_driver(), [call], limits, files=files, packages=spec.packages)
        return ran.results[0]


def protected(path: str, spec: Spec) -> bool:
    """Whether a patch to `path` could decide how the tests run: tests, configuration, shadowed modules."""
    if shadows(path, spec.files):
        return True
    patterns = (*_PROTECTED, *spec.protected)
    return (
        path in spec.tests
        or any(fnmatch.fnmatchcase(path, each) for each in patterns)
        or any(fnmatch.fnmatchcase(path.rpartition("/")[2], each) for each in patterns if "/" not in each)
    )


def shadows(path: str, files: Container[str]) -> bool:
    """Whether a new file would hide a module of the standard library, or of what is installed, from the test runner.

    What the repository itself calls by such a name may grow.
    """
    top, _, rest = path.partition("/")
    name = top.partition(".")[0]
    if path in files or f"{name}.py" in files or f"{name}/__init__.py" in files:
        return False
    importable = bool(rest) or top.endswith((".py", ".so", ".pyc"))
    return importable and (name in sys.stdlib_module_names or name in _RUNNERS or name in _installed())


@lru_cache(maxsize=1)
def _installed() -> frozenset[str]:
    """The top-level modules of every package here; jails get the same ones, or environments built of some of them."""
    return frozenset(packages_distributions())


@lru_cache(maxsize=1)
def _driver() -> str:
    return Path(__file__).parents[1].joinpath("repository", "driver.py").read_text(encoding="utf-8")


def _judged(kind: VerdictKind, reason: str, evidence: Mapping[str, Any]) -> Judgement:
    return Judgement(kind, 1.0 if kind is VerdictKind.PASS else 0.0, reason, evidence, Trust.INSIDE)


def _last_lines(path: str, content: str, lines: str) -> str:
    body = content.splitlines()
    added = "".join(f"+{line}\n" for line in lines.splitlines())
    count = len(lines.splitlines())
    end = "" if content.endswith("\n") else "\\ No newline at end of file\n"
    head = f"@@ -{len(body)} +{len(body)},{count + 1} @@\n"
    return f"```diff\n--- a/{path}\n+++ b/{path}\n{head} {body[-1]}\n{end}{added}```"


def _new_file(path: str, line: str) -> str:
    return f"```diff\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n```"


def _first_line(path: str, content: str, line: str) -> str:
    first = content.splitlines()[0]
    return f"```diff\n--- a/{path}\n+++ b/{path}\n@@ -1 +1,2 @@\n+{line}\n {first}\n```"
