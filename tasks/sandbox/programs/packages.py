"""A task's declared packages for the jail: copied once from this environment, with all that they need.

A jail sees no site-packages. A task may name packages (`("pytest==9.2.0", "numpy")`). Where an environment was built
for exactly these pins (environments.py) the jail gets that; else they and their dependencies are copied, byte-compiled,
into a folder of their own. Either is bound read-only at /opt/env. Nothing is downloaded: a package that is neither
built nor installed here, in the version that is asked for, is the user's to build.
"""

import os
import shutil
import time
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import Unavailable, UserError
from schemas.ids import content_id
from schemas.trajectory import Base
from tasks.sandbox.programs.environments import build_command, canonical, find, pins_of, place
from tasks.sandbox.programs.folders import finish

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_LAYOUT = 1


class Packages(Base, frozen=True):
    """A ready folder; `version` names every package in it and belongs into every cache key of a verdict.

    lock: the hash of every file of a built environment, "" for copies of what is installed here.
    """

    root: Path
    version: str
    lock: str = ""


def _found(text: str) -> tuple["Requirement", Distribution]:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise UserError(f"'{text}' names no package: {error}", "Write it as: numpy, or numpy==2.4.0.") from error
    try:
        found = distribution(wanted.name)
    except PackageNotFoundError as error:
        raise UserError(
            f"The package '{text}' that a task needs in its jail is not installed.",
            "A jail gets copies of what is installed here, and nothing is downloaded while running.",
            f"Install it with: pip install '{text}'",
        ) from error
    if not wanted.specifier.contains(found.version, prereleases=True):
        raise UserError(
            f"A task needs '{text}' in its jail, but {found.version} is installed.", "", f"pip install '{text}'"
        )
    return wanted, found


def closure(names: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that `names` need, by canonical name; optional extras only where asked for."""
    from packaging.requirements import Requirement

    every: dict[str, Distribution] = {}
    queue = [(name, "") for name in names]
    seen: set[tuple[str, str]] = set()
    while queue:
        text, extra = queue.pop()
        wanted, found = _found(text)
        key = canonical(wanted.name)
        every[key] = found
        for part in wanted.extras or {""}:
            if (key, part) in seen:
                continue
            seen.add((key, part))
            for line in found.requires or []:
                needs = Requirement(line)
                if needs.marker is None or needs.marker.evaluate({"extra": part or extra}):
                    extras = f"[{','.join(sorted(needs.extras))}]" if needs.extras else ""
                    queue.append((f"{needs.name}{extras}{needs.specifier}", ""))
    return every


def prepare(state: Path, names: tuple[str, ...]) -> Packages:
    """The folder for these packages: the environment that was built for exactly these pins, else copies of what is
    installed here, made on first use.

    UserError when there is neither; Unavailable `lock_changed` when a built environment is not what it was.
    """
    pins = pins_of(names)
    built = find(state, pins) if pins else None
    if pins and built:
        folder = place(state, pins)
        return Packages(root=folder, version=f"{folder.name}:{built.lock}", lock=built.lock)
    try:
        every = closure(names)
    except UserError as error:
        if pins is None:
            raise
        raise UserError(
            error.given,
            "A jail gets an environment that was built for its pins, or copies of what is installed here in the same "
            "versions; nothing is downloaded while running.",
            f"Build it once with: {build_command(pins)}",
        ) from error
    listed = sorted(f"{key}=={found.version}" for key, found in every.items())
    key = content_id("packages", _LAYOUT, listed)[:16]
    target = state / f"env-{key}"
    if not target.is_dir():
        building = state / f"building-{os.getpid()}-{time.monotonic_ns()}"
        try:
            building.mkdir(mode=0o755)
            for found in every.values():
                _copy(found, building)
            finish(building)
            building.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise Unavailable("sandbox", f"Packages could not be copied to {state}: {error}") from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
    os.utime(target)
    return Packages(root=target, version=f"{key}:{','.join(sorted(names))}")


def _copy(found: Distribution, target: Path) -> None:
    for file in found.files or []:
        # Scripts and data outside site-packages, and compiled files, which are made anew.
        if ".." in file.parts or file.suffix in (".pyc", ".pth"):
            continue
        source = Path(str(file.locate()))
        if source.is_file():
            target_file = target.joinpath(*file.parts)
            target_file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target_file)
