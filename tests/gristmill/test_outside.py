"""Plug-ins of outside packages: one that cannot be loaded is named, and takes nothing else down."""

import sys
from pathlib import Path

import pytest

from gristmill.catalogue import catalogue
from gristmill.health import examine
from schemas.errors import UserError
from schemas.vocabulary import Kind
from tasks.registry import plugin_class

GOOD = '''
"""Drops trajectories with more than `most` steps."""
from gristmill.plugin import KEEP, Choice, Selector


class ShortEnough(Selector, frozen=True, kw_only=True):
    """most: how many steps are kept."""

    most: int = 40

    def judge(self, trajectory, verdicts, item, ctx):
        steps = len(trajectory.steps)
        return KEEP if steps <= self.most else Choice(False, "too_many_steps")
'''


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed packages, of which one cannot be imported."""
    (tmp_path / "outside_good.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "outside_bad.py").write_text("import a_module_that_is_not_there\n", encoding="utf-8")
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[gristmill.selector]\nshort_enough = outside_good:ShortEnough\nbroken = outside_bad:Broken\n", encoding="utf-8"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("outside_good", "outside_bad"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("packages")
def test_a_broken_one_is_named_and_the_others_are_listed() -> None:
    listed = {plugin["id"]: plugin for plugin in catalogue("curate")}
    assert listed["short_enough"]["options"]["most"] == "40" and "exact" in listed
    assert "outside_bad:Broken" in listed["broken"]["what"] and "a_module_that_is_not_there" in listed["broken"]["what"]
    with pytest.raises(UserError, match="outside package cannot be loaded"):
        plugin_class(Kind.SELECTOR, "broken")


@pytest.mark.usefixtures("packages")
def test_doctor_tells_of_both(tmp_path: Path) -> None:
    found = {finding["what"]: finding["state"] for finding in examine(str(tmp_path / "lake"))}
    assert (found["selector short_enough"], found["selector broken"]) == ("ok", "bad")
