"""The same attacks as an ordinary user, who has neither user ids to give away nor cgroups."""

import json
import os
import runpy
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tasks.sandbox.bounds.processes import of_users
from tasks.sandbox.programs import interpreter
from tasks.sandbox.state import state_dir
from tests.tasks.sandbox.left import wait_for_none

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
UID = 23_456
FORGERIES = HERE.parent / "verify" / "forgeries.py"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that the user owns, with readable copies of what is needed."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-user-", dir="/tmp"))
    for package in ("schemas", "tasks"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(msgspec.__file__).parent, folder / "msgspec")
    for name in ("attack_all.py", "escapes.py", "escapes_programs.py"):
        shutil.copy(HERE / name, folder)
    shutil.copy(FORGERIES, folder)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, UID, UID)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def report(place: Path) -> dict[str, Any]:
    python = interpreter.prepare(state_dir())
    home = python.root / "opt" / "python"
    done = subprocess.run(
        ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", str(home / "bin" / "python3"), "-S",
         *(str(place / f"{name}.py") for name in ("attack_all", "escapes", "forgeries", "escapes_programs"))],
        env={"PYTHONPATH": str(place), "LD_LIBRARY_PATH": str(home / "lib"), "HOME": str(place), "PATH": os.defpath},
        cwd=place, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_without_rights_the_watchdog_bounds_the_sums(report: dict[str, Any]) -> None:
    assert report["mode"] in ("watchdog", "cgroup")


def test_every_escape_is_refused(report: dict[str, Any]) -> None:
    escapes = {each.name: each for each in runpy.run_path(str(HERE / "escapes.py"))["ESCAPES"]}
    bad = {
        name: found
        for name, found in report["escapes"].items()
        if not (found[0] == "ok" and found[1].startswith("refused")) and found[0] not in escapes[name].ends
    }
    assert not bad
    assert len(report["escapes"]) == len(escapes)


def test_every_escape_from_another_language_is_refused(report: dict[str, Any]) -> None:
    programs = {each.name: each for each in runpy.run_path(str(HERE / "escapes_programs.py"))["PROGRAMS"]}
    bad = {
        name: found
        for name, found in report["programs"].items()
        if "ESCAPED" in found[1]
        or (not (found[0] == "ok" and found[1].split()[-1:] == ["refused"]) and found[0] not in programs[name].ends)
    }
    assert not bad
    assert report["programs"]


def test_every_forgery_is_refused(report: dict[str, Any]) -> None:
    forgeries = {each.name: each for each in runpy.run_path(str(FORGERIES))["FORGERIES"]}
    bad = {
        name: found
        for name, found in report["forgeries"].items()
        if found[0] not in forgeries[name].kinds or found[1] != 0.0
    }
    assert not bad
    assert len(report["forgeries"]) == len(forgeries)


def test_nothing_is_left_behind(report: dict[str, Any]) -> None:
    assert not wait_for_none(lambda: of_users(frozenset({UID})))
