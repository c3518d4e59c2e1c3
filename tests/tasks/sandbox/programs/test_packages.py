"""Declared packages in a jail: they and what they need, nothing else."""

import pytest

from schemas.errors import UserError
from tasks.sandbox.programs.packages import closure
from tasks.sandbox.results import Call, Limits, RunKind
from tasks.sandbox.sandbox import Sandbox

WIDE = Limits(wall_s=60, cpu_s=30, memory_mb=2048)


def test_only_what_is_declared_can_be_imported(box: Sandbox) -> None:
    code = "import pytest, pluggy\ndef f(): return pytest.__version__"
    assert box.call_functions(code, [Call(entry="f")], WIDE).results[0].kind is RunKind.ERROR
    with_it = box.call_functions(code, [Call(entry="f")], WIDE, packages=("pytest",))
    assert with_it.results[0].value == pytest.__version__
    other = box.run_python("import numpy", packages=("pytest",))
    assert "ModuleNotFoundError" in other.stderr


def test_compiled_packages_find_their_libraries(box: Sandbox) -> None:
    code = "import numpy as np\nprint(int(np.linalg.det(np.eye(3)) + np.arange(4).sum()))"
    ran = box.run_python(code, packages=("numpy",), limits=WIDE)
    assert ran.stdout == "7\n", ran


def test_the_packages_cannot_be_changed_and_are_part_of_the_version(box: Sandbox) -> None:
    ran = box.run_python("import pluggy; open(pluggy.__file__, 'a')", packages=("pluggy",))
    assert "Read-only file system" in ran.stderr or "Permission denied" in ran.stderr
    assert box.version(("pluggy",)) != box.version()


def test_a_package_that_is_not_there_is_the_users_to_install(box: Sandbox) -> None:
    for name in ("no-such-package-here", "pytest==0.0.1", "not a name"):
        with pytest.raises(UserError):
            box.run_python("pass", packages=(name,))


def test_the_closure_has_what_is_required_and_no_more() -> None:
    names = set(closure(("pytest",)))
    assert {"pytest", "pluggy", "iniconfig", "packaging"} <= names
    assert "numpy" not in names
