"""Patches judged by a repository's tests: gold, wrong, and those that try to be judged right."""

# ruff: noqa: E501

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import RecordError
from schemas.task import Task, VerifierSpec
from schemas.vocabulary import Trust
from tasks.context import Context
from tasks.verify.proof import prove
from tasks.verify.repository import canary
from tasks.verify.repository.patch import PatchError, apply, parse
from tasks.verify.verifier import repo_tests
from tasks.verify.verifier.repo_tests import RepoTests, Spec, shadows

SOURCE = "def double(x):\n    return x + 1\n\n\ndef same(x):\n    return x\n"
TESTS = (
    "from pkg.a import double, same\n\n\ndef test_double():\n    assert double(4) == 8\n\n\n"
    "def test_same():\n    assert same(3) == 3\n"
)
UNIT = (
    "import unittest\nfrom pkg.a import double\n\n\nclass DoubleTest(unittest.TestCase):\n"
    "    def test_double(self):\n        self.assertEqual(double(4), 8)\n"
)
SPEC: dict[str, Any] = {
    "files": {"pkg/__init__.py": "", "pkg/a.py": SOURCE, "README.md": "x\n"},
    "tests": {"tests/test_a.py": TESTS},
    "fail_to_pass": ["tests/test_a.py::test_double"],
    "pass_to_pass": ["tests/test_a.py::test_same"],
    "packages": ["pytest"],
}
GOLD = "```diff\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1,2 +1,2 @@\n def double(x):\n-    return x + 1\n+    return x * 2\n```"


def task(gold: str | None = GOLD, **spec: Any) -> Task:
    text = json.dumps({**SPEC, **spec})
    return Task(id="r", kind="repo", prompt=(), verifier=VerifierSpec(use="repo_tests", spec_json=text), gold=gold)


def first_lines(*lines: str) -> str:
    added = "".join(f"+{line}\n" for line in lines)
    return f"```diff\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1 +1,{len(lines) + 1} @@\n{added} def double(x):\n```"


def new_file(path: str, text: str = "x = 1") -> str:
    return f"```diff\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n```"


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (GOLD, "pass", "pass"),
        (first_lines("# nothing"), "fail", "test_failed"),
        ("no patch", "unparsable", "not_a_patch"),
        ("```diff\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1 +1 @@\n-other\n+x\n```", "fail", "does_not_apply"),
        (new_file("tests/test_a.py"), "refused", "protected_file"),
        (new_file("conftest.py"), "refused", "protected_file"),
        (new_file("pkg/conftest.py"), "refused", "protected_file"),
        (new_file("sitecustomize.py"), "refused", "protected_file"),
        (new_file("pkg/evil.pth"), "refused", "protected_file"),
        (new_file("pyproject.toml"), "refused", "protected_file"),
        (new_file("pytest.py"), "refused", "protected_file"),
        (new_file("json/__init__.py"), "refused", "protected_file"),
        (new_file("pygments/__init__.py"), "refused", "protected_file"),
        (new_file("hypothesis.py"), "refused", "protected_file"),
        (new_file(".git/config"), "refused", "protected_file"),
        (new_file("../outside.py"), "unparsable", "unsupported"),
        (first_lines("import os", "os._exit(0)"), "fail", "test_exited"),
        (first_lines("raise SystemExit(0)"), "fail", "test_missing"),
    ],
)
def test_patches(bare: Context, answer: str, kind: str, reason: str) -> None:
    verdict = RepoTests().score(task(), answer, bare)
    assert (verdict.kind.value, json.loads(verdict.evidence_json)["reason"]) == (kind, reason), verdict
    assert verdict.reward == (1.0 if kind == "pass" else 0.0)
    assert verdict.trust is Trust.INSIDE


CHEATS = {
    "every report says passed": (
        "import _pytest.reports as r",
        "_old = r.TestReport.__init__",
        "def _new(self, *a, **k):",
        "    _old(self, *a, **k); self.outcome = 'passed'",
        "r.TestReport.__init__ = _new",
    ),
    "calls are skipped": ("import _pytest.runner as r", "r.pytest_runtest_call = lambda item: None",
                          "import _pytest.python as p", "p.Function.runtest = lambda self: None"),
    "the driver is replaced": ("import __main__, sys", "sys.modules['candidate']._pytest = lambda i: 'passed'",
                               "import pytest", "pytest.main = lambda *a, plugins=(), **k: [plugins[0]."
                               "pytest_runtest_logreport(type('R', (), dict(nodeid=a[0][-1], when=w, outcome='passed')))"
                               " for w in ('setup', 'call', 'teardown')]"),
    "asserts are disarmed": ("import builtins", "builtins.AssertionError = type('E', (Exception,), {})"),
    "its own tests are skipped": tuple(repo_tests._SKIP["pytest"].strip().split("\n")),
    "a value of its own": ("import os", "b = b'[0,\"ok\",\"passed\"]'",
                           "os.write(3, len(b).to_bytes(4, 'big') + b'J' + b)", "os._exit(0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHEATS)
def test_a_patch_that_patches_the_runner_meets_canaries(bare: Context, name: str) -> None:
    found = RepoTests(canaries=3).judge(task(), first_lines(*CHEATS[name]), bare)
    assert found.kind.value in ("refused", "fail"), found
    assert found.reward == 0.0
    if "skipped" in name:
        assert found.reason == "canary_passed"


@pytest.mark.parametrize(
    ("path", "hides"),
    [
        ("pygments/__init__.py", True), ("pygments.py", True), ("pygments.cpython-311-x86_64-linux-gnu.so", True),
        ("pluggy/x.py", True), ("json.py", True), ("json/x.py", True), ("_pytest/skipping.py", True),
        ("numpy/new.py", False), ("six.py", False), ("pkg/json.py", False), ("pkg/pygments/__init__.py", False),
        ("json.md", False), ("other/__init__.py", False),
    ],
)  # fmt: skip
def test_new_modules_that_hide_what_the_runner_imports(path: str, hides: bool) -> None:
    own = {"numpy/__init__.py": "", "six.py": "", "pkg/a.py": ""}
    assert shadows(path, own) is hides


def test_unittest_repositories_need_no_packages(bare: Context) -> None:
    spec = {"tests": {"tests/test_u.py": UNIT, "tests/__init__.py": ""}, "runner": "unittest", "packages": []}
    ids = {"fail_to_pass": ["tests.test_u.DoubleTest.test_double"], "pass_to_pass": []}
    found = RepoTests().judge(task(**spec, **ids), GOLD, bare)
    assert found.kind.value == "pass", found
    assert RepoTests().judge(task(**spec, **ids), first_lines("# x"), bare).reason == "test_failed"
    skips = RepoTests().judge(task(**spec, **ids), first_lines(*repo_tests._SKIP["unittest"].strip().split("\n")), bare)
    assert (skips.kind.value, skips.reason) == ("refused", "canary_passed")
    missing = {"fail_to_pass": ["tests.test_u.DoubleTest.test_other"]}
    assert RepoTests().judge(task(**spec, **missing), GOLD, bare).kind.value == "fail"


def test_the_exact_expected_ids_must_pass(bare: Context) -> None:
    found = RepoTests().judge(task(fail_to_pass=["tests/test_a.py::test_gone"]), GOLD, bare)
    assert (found.kind.value, found.reason) == ("fail", "test_missing")
    skipped = TESTS.replace("def test_double", "import pytest\n\n\n@pytest.mark.skip\ndef test_double")
    assert RepoTests().judge(task(tests={"tests/test_a.py": skipped}), GOLD, bare).reason == "test_failed"


def test_repository_tasks_prove_themselves(bare: Context) -> None:
    proof = prove(task(), bare, runs=2)
    assert proof.ok, proof
    assert {"empty", "exit", "edit_tests", "start_up", "shadow", "skip"} <= set(proof.evidence["refused"])
    assert prove(task(gold=first_lines("# x")), bare, runs=1).reason == "gold_fails"


def test_canaries_are_the_tests_themselves_and_fail(bare: Context) -> None:
    ids = ["tests/test_a.py::test_double"]
    planted = canary.plant({"tests/test_a.py": TESTS}, ids, ["tests/test_a.py::test_same"], "pytest", 4)
    shape = Spec(**json.loads(task().verifier.spec_json))
    fixed = {**shape.files, "pkg/a.py": SOURCE.replace("x + 1", "x * 2")}
    for test_id, files in planted:
        changed = files["tests/test_a.py"]
        # Only the number that is expected differs.
        assert (test_id, re.sub(r"== \d+\n\n\ndef test_same", "== 8\n\n\ndef test_same", changed)) == (ids[0], TESTS)
        assert changed != TESTS
        assert RepoTests()._run(shape, {**fixed, **files}, test_id, bare).value == "failed"
    assert len(planted) == 4


BODIES = [
    "assert f(2) == 4", "assert 4 == f(2)", "assert f(2) == -(-4)", "want = [4]\n    assert [f(2)] == want",
    "assert {'a': f(2)} == {'a': 4}", "assert str(f(2)) == 'é4'[1:]", "assert f(2)", "assert not f(0)",
    "assert f(2) > 3 > 1", "assert f(2) != 5", "assert f(2) in (4, 5)", "assert (f(2) == 4) is True",
    "assert f(2) / 8 == 0.5", "x = 'é'; assert f(2) == 4", "with open(__file__):\n        assert f(2) == 4",
    "with pytest.raises(TypeError):\n        f(None)", "f(2)", "assert f(2) == 4\n    if False:\n        assert 0",
    "unittest.TestCase().assertEqual(f(2), 4)", "unittest.TestCase().assertTrue(f(2))",
    "unittest.TestCase().assertIn(f(2), [4])", "assert f(\n        2\n    ) == (\n        4\n    ), 'why'",
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_whatever_a_test_demands_its_canary_demands_something_false(body: str) -> None:
    text = f"import pytest, unittest\ndef f(x): return x * 2\nclass TestF:\n  def test_f(self):\n    {body}\n"
    for _ in range(5):
        ((_, files),) = canary.plant({"t.py": text}, ["t.py::TestF::test_f"], [], "pytest", 1)
        space: dict[str, Any] = {"__file__": __file__}
        exec(compile(files["t.py"], "t.py", "exec"), space)
        with pytest.raises((AssertionError, TypeError)):
            space["TestF"]().test_f()


def test_what_may_end_early_or_cannot_be_found_is_no_canary(bare: Context) -> None:
    early = "def test_a():\n    if 1:\n        return\n    assert 0\n"
    for text in (early, "def test_b(): pass\n", "def test_a(: pass\n"):
        assert canary.plant({"t.py": text}, ["t.py::test_a"], [], "pytest", 2) == []
    only = {"tests/test_a.py": TESTS.replace("    assert double(4) == 8\n", "    assert double(4) == 8\n    return\n")}
    with pytest.raises(RecordError, match="canary"):
        RepoTests().judge(task(tests=only, pass_to_pass=[]), GOLD, bare)


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ({"a": "1\n2\n3\n"}, "--- a/a\n+++ b/a\n@@ -2 +2 @@\n-2\n+two\n", {"a": "1\ntwo\n3\n"}),
        ({}, "--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n+y\n", {"n": "x\ny\n"}),
        ({"a": "x\n"}, "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", {}),
        ({"a": "x"}, "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n", {"a": "y\n"}),
        ({"a": "1\n\n3\n"}, "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n\n-3\n+4\n", {"a": "1\n\n4\n"}),
        (
            {"a": "1\n2\n3\n4\n5\n6\n"},
            "diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1,2 +1,1 @@\n-1\n 2\n@@ -5,2 +4,3 @@\n 5\n+x\n 6\n",
            {"a": "2\n3\n4\n5\nx\n6\n"},
        ),
    ],
)
def test_patches_apply_exactly(before: dict[str, str], text: str, after: dict[str, str]) -> None:
    assert apply(before, parse(text)) == after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not_a_patch"),
        ("--- a/a\n+++ b/a\n", "not_a_patch"),
        ("--- a/a\n+++ b/a\n@@ -1,5 +1,5 @@\n 1\n", "not_a_patch"),
        ("--- a/a\n+++ b/a\n@@ -9 +9 @@\n-1\n+2\n", "does_not_apply"),
        ("--- a/b\n+++ b/b\n@@ -1 +1 @@\n-1\n+2\n", "does_not_apply"),
        ("--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+2\n", "does_not_apply"),
        ("--- a//etc/x\n+++ b//etc/x\n@@ -1 +1 @@\n-1\n+2\n", "unsupported"),
        ("new file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n", "unsupported"),
        ("rename from a\nrename to b\n", "unsupported"),
        ("GIT binary patch\n", "unsupported"),
    ],
)
def test_what_does_not_fit_is_told(text: str, reason: str) -> None:
    with pytest.raises(PatchError) as error:
        apply({"a": "1\n"}, parse(text))
    assert error.value.reason == reason


@given(st.text(alphabet="@-+ \n\\0123456789abd/", max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(PatchError):
        apply({"a": "1\n"}, parse("--- a/a\n+++ b/a\n" + text))
