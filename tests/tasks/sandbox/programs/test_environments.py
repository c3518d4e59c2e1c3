"""Pinned environments: built once from wheels, offline afterwards, and the same everywhere or refused."""

import base64
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import Unavailable, UserError
from schemas.vocabulary import VerdictKind
from tasks.sandbox import state
from tasks.sandbox.programs import environments
from tasks.sandbox.results import RunKind
from tasks.sandbox.sandbox import Sandbox
from tasks.verify.repository.build import locked


def wheel(folder: Path, name: str, version: str, files: dict[str, str], needs: tuple[str, ...] = ()) -> None:
    """Writes a real wheel, so that the real pip installs it."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    whole = files | {
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {each}\n" for each in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as out:
        for path, text in whole.items():
            hashed = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={hashed},{len(text)}\n"
            out.writestr(path, text)
        out.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place pip may take packages from."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    wheel(folder, "grain", "1.0", {"grain.py": "KIND = 'rye'\n"})
    wheel(folder, "grain", "2.0", {"grain.py": "KIND = 'wheat'\n"})
    wheel(
        folder, "flour", "1.0", {"flour/__init__.py": "import grain\nKIND = 'flour of ' + grain.KIND\n"}, ("grain>=1",)
    )
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The sandbox's own folder, where a jail's user id reaches it (pytest's folders are closed to others)."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-test-", dir="/tmp"))
    folder.chmod(0o755)
    monkeypatch.setenv(state.OVERRIDE, str(folder))
    yield folder
    shutil.rmtree(folder)


PINS = ("flour==1.0", "grain==1.0")
CODE = "import flour\nprint(flour.KIND)"


def test_a_built_environment_is_what_the_jail_imports(wheels: Path, own: Path) -> None:
    box = Sandbox.start(1)
    try:
        with pytest.raises(UserError, match=r"gristmill environment 'flour==1\.0' 'grain==1\.0'"):
            box.run_python(CODE, packages=PINS)
        lock = environments.build(own, PINS)
        ran = box.run_python(CODE, packages=PINS)
        assert (ran.kind, ran.stdout) == (RunKind.OK, "flour of rye\n"), ran
        assert lock.lock == box.lock(PINS) and lock.lock in box.version(PINS)
        assert locked(box, PINS, lock.lock) is None and locked(box, PINS, "") is None
        wrong = locked(box, PINS, "0" * 32)
        assert wrong is not None and (wrong.kind, wrong.reason) == (VerdictKind.INFRASTRUCTURE, "lock_changed")
        # Another pin is another environment; the first stays as it was.
        other = ("flour==1.0", "Grain==2.0")
        environments.build(own, other)
        assert box.run_python(CODE, packages=other).stdout == "flour of wheat\n"
        assert box.lock(other) != box.lock(PINS)
        changed = box.run_python("import grain\nopen(grain.__file__, 'a')", packages=PINS)
        assert "Read-only file system" in changed.stderr or "Permission denied" in changed.stderr
    finally:
        box.close()


def test_building_again_only_checks_and_the_order_of_pins_does_not_matter(wheels: Path, place: Path) -> None:
    first = environments.build(place, PINS)
    for path in wheels.iterdir():
        path.unlink()
    assert environments.build(place, tuple(reversed(PINS))) == first
    assert [path.name for path in place.iterdir()] == [environments.place(place, first.pins).name]


def test_the_lock_is_the_same_wherever_it_is_built(wheels: Path, tmp_path: Path) -> None:
    locks = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        locks.add(environments.build(tmp_path / name, PINS))
    assert len(locks) == 1


def test_a_changed_file_is_noticed_before_anything_runs(wheels: Path, own: Path) -> None:
    lock = environments.build(own, PINS)
    changed = environments.place(own, lock.pins) / "grain.py"
    changed.write_text("KIND = 'sand'\n")
    box = Sandbox.start(1)
    try:
        with pytest.raises(Unavailable, match="lock_changed"):
            box.run_python(CODE, packages=PINS)
        wrong = locked(box, PINS, lock.lock)
        assert wrong is not None and wrong.reason == "lock_changed"
    finally:
        box.close()
    with pytest.raises(Unavailable, match="lock_changed"):
        environments.build(own, PINS)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("flour==1.0",), "not all that is needed: grain>=1 .for flour."),
        (("grain>=1",), "exact pins"),
        (("grain",), "exact pins"),
        ((), "exact pins"),
        (("grain==1.0 --index-url=http://x",), "exact pins"),
        (("grain @ file:///x",), "exact pins"),
        (("-r==x",), "exact pins"),
        (("grain==3.0",), "could not install"),
    ],
)
def test_what_is_not_pinned_or_not_there_is_said(wheels: Path, place: Path, names: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        environments.build(place, names)
    assert not list(place.iterdir())


def test_no_code_of_a_package_runs_while_it_is_built(wheels: Path, place: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    start = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    wheel(wheels, "husk", "1.0", {"husk.pth": start, "husk.py": start, "sitecustomize.py": start})
    lock = environments.build(place, ("husk==1.0",))
    folder = environments.place(place, lock.pins)
    assert not mark.exists()
    assert not list(folder.rglob("*.pth"))
    (wheels / "sdist-1.0.tar.gz").write_bytes(b"")
    with pytest.raises(UserError, match="could not install"):
        environments.build(place, ("sdist==1.0",))


def test_a_file_of_the_environment_never_runs_at_the_start_of_a_jail(wheels: Path, own: Path) -> None:
    wheel(wheels, "husk", "1.0", {"sitecustomize.py": "print('started')\n", "husk.py": ""})
    environments.build(own, ("husk==1.0",))
    box = Sandbox.start(1)
    try:
        assert box.run_python("import husk\nprint('code')", packages=("husk==1.0",)).stdout == "code\n"
    finally:
        box.close()


def test_everybody_may_read_it_and_only_its_owner_write(wheels: Path, place: Path) -> None:
    lock = environments.build(place, PINS)
    folder = environments.place(place, lock.pins)
    assert all(path.stat().st_mode & 0o044 == 0o044 and not path.stat().st_mode & 0o022 for path in folder.rglob("*"))
    assert folder.stat().st_uid == os.geteuid()
