"""Pinned Python environments for jails: built once by an explicit step, then only read.

    gristmill environment 'attrs==25.3.0' 'six==1.17.0'

The pins must be all that is needed: what a package requires and no pin names is an error that lists it. Only wheels
are installed, so no code of a package runs while it is built. The folder is named by the hash of its pins and of the
interpreter; its `lock` is the hash of every file in it, checked at the first use in each process. Nothing is ever
downloaded while tasks run.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

import msgspec

from schemas.errors import Unavailable, UserError
from schemas.ids import content_id
from schemas.trajectory import Base
from tasks.sandbox.programs.folders import finish

_LAYOUT = 1
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
_LOCK = ".lock.json"
_OPTIONS = (
    *("--no-deps", "--only-binary", ":all:", "--no-compile", "--no-input", "--disable-pip-version-check", "--quiet"),
)


class Lock(Base, frozen=True):
    """What an environment holds: its pins, the interpreter it is for, and the hash of all its files."""

    pins: tuple[str, ...]
    python: str
    lock: str


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins_of(names: Iterable[str]) -> tuple[str, ...] | None:
    """The names as exact pins in canonical order; None when one of them is no exact pin."""
    found = [_PIN.fullmatch(name.replace(" ", "")) for name in names]
    if not found or not all(found):
        return None
    return tuple(sorted({f"{canonical(each[1])}=={each[2]}" for each in found if each}))


def build_command(pins: Iterable[str]) -> str:
    """The command line that builds the environment."""
    return "gristmill environment " + " ".join(f"'{pin}'" for pin in pins)


def place(state: Path, pins: tuple[str, ...]) -> Path:
    """Where the environment of these pins lies once it is built."""
    return state / f"pinned-{content_id('environment', _LAYOUT, _python(), pins)[:16]}"


def find(state: Path, pins: tuple[str, ...]) -> Lock | None:
    """The lock of a built environment; None when it was not built. Unavailable `lock_changed` when a file changed."""
    folder = place(state, pins)
    try:
        lock = msgspec.json.decode((folder / _LOCK).read_bytes(), type=Lock)
    except (OSError, msgspec.MsgspecError):
        return None
    if content_hash(folder) != lock.lock:
        raise Unavailable(
            "lock_changed",
            f"The files of the environment {folder.name} are not those that it was built with. Remove {folder} and "
            f"build it again with: {build_command(pins)}",
        )
    return lock


def content_hash(folder: Path) -> str:
    """The hash of every file's path and bytes, the same on every machine.

    Without compiled Python, the system's libraries and the lock itself.
    """
    hashed = hashlib.blake2b(digest_size=16)
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.suffix != ".pyc" and name != _LOCK and not name.startswith(".libs/"):
            hashed.update(name.encode() + b"\0" + hashlib.blake2b(path.read_bytes()).digest())
    return hashed.hexdigest()


def build(state: Path, names: Iterable[str]) -> Lock:
    """Installs the pins into a folder of their own; what is built already is only checked.

    UserError for names that are no exact pins, when a needed package is not pinned, or when pip cannot install them.
    """
    names = tuple(names)
    pins = pins_of(names)
    if pins is None:
        raise UserError(
            f"Not all of these are exact pins: {', '.join(names) or 'none given'}.", "Write each as: numpy==2.4.0"
        )
    known = find(state, pins)
    if known is not None:
        return known
    target = place(state, pins)
    building = state / f"building-{os.getpid()}-{time.monotonic_ns()}"
    try:
        _install(pins, building)
        _complete(pins, building)
        _tidy(building)
        finish(building)
        lock = Lock(pins=pins, python=_python(), lock=content_hash(building))
        (building / _LOCK).write_bytes(msgspec.json.encode(lock))
        (building / _LOCK).chmod(0o644)
        building.rename(target)
    except OSError as error:
        if not target.is_dir():
            raise Unavailable("sandbox", f"The environment could not be built in {state}: {error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    found = find(state, pins)
    if found is None:
        raise Unavailable("sandbox", f"The environment could not be built in {state}.")
    return found


def _python() -> str:
    return f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"


def _install(pins: tuple[str, ...], target: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *_OPTIONS, "--target", str(target), *pins],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UserError(
            f"pip could not install {', '.join(pins)}:\n{done.stderr.strip()[-1500:]}",
            "Only wheels are installed, and only what is pinned.",
        )


def _complete(pins: tuple[str, ...], target: Path) -> None:
    """UserError when a package needs another that is not pinned, or in another version."""
    from packaging.requirements import Requirement

    held = dict(pin.split("==", 1) for pin in pins)
    missing = []
    for found in distributions(path=[str(target)]):
        for line in found.requires or []:
            needs = Requirement(line)
            if needs.marker is not None and not needs.marker.evaluate({"extra": ""}):
                continue
            version = held.get(canonical(needs.name))
            if version is None or not needs.specifier.contains(version, prereleases=True):
                missing.append(f"{needs.name}{needs.specifier} (for {found.name})")
    if missing:
        raise UserError(
            f"The pins are not all that is needed: {', '.join(sorted(missing))}.",
            "An environment holds exactly what its pins name, so that it is the same wherever it is built.",
            "Add an exact pin for each.",
        )


def _tidy(target: Path) -> None:
    """Removes what would differ from build to build or could run at a start."""
    shutil.rmtree(target / "bin", ignore_errors=True)
    for path in [
        *target.rglob("*.pth"),
        *target.glob("*.dist-info/RECORD"),
        *target.glob("*.dist-info/direct_url.json"),
    ]:
        path.unlink()
