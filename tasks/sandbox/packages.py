"""A task's declared packages for the jail: copied once from this environment, with all that they need.

A jail sees no site-packages. A task may name packages (`("pytest==9.2.0", "numpy")`); they and their dependencies are
copied, byte-compiled, into a folder of their own that is bound read-only at /opt/env. Nothing is downloaded: a package
that is not installed here, or not in the version that is asked for, is the user's to install.
"""

import compileall
import os
import py_compile
import re
import shutil
import time
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import Unavailable, UserError
from schemas.ids import content_id
from schemas.trajectory import Base
from tasks.sandbox.interpreter import needed

if TYPE_CHECKING:
    from packaging.requirements import Requirement

INSIDE = "/opt/env"
_LAYOUT = 1


class Packages(Base, frozen=True):
    """A ready folder; `version` names every package in it and belongs into every cache key of a verdict."""

    root: Path
    version: str


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
        key = re.sub(r"[-_.]+", "-", wanted.name).lower()
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
    """The folder for these packages, copied on first use. UserError when one of them is not installed as asked."""
    every = closure(names)
    listed = sorted(f"{key}=={found.version}" for key, found in every.items())
    key = content_id("packages", _LAYOUT, listed)[:16]
    target = state / f"env-{key}"
    if not target.is_dir():
        building = state / f"building-{os.getpid()}-{time.monotonic_ns()}"
        try:
            building.mkdir(mode=0o755)
            for found in every.values():
                _copy(found, building)
            _libraries(building)
            compileall.compile_dir(
                building,
                quiet=2,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                stripdir=str(building),
                prependdir=INSIDE,
            )
            for path in (building, *building.rglob("*")):
                path.chmod(0o755 if path.is_dir() or ".so" in path.name else 0o644)
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
            place = target.joinpath(*file.parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)


def _libraries(target: Path) -> None:
    """Shared libraries of the system that the packages' modules load, beside them in .libs."""
    modules = [path for path in target.rglob("*.so*") if path.is_file()]
    if not modules:
        return
    place = target / ".libs"
    place.mkdir()
    for name, source in needed(modules).items():
        if not name.startswith("/") and source.is_file() and not source.is_relative_to(target):
            shutil.copyfile(source, place / name)
