"""What every folder of Python packages for a jail goes through before it is used."""

import compileall
import py_compile
import shutil
from pathlib import Path

from tasks.sandbox.programs.interpreter import needed

INSIDE = "/opt/env"


def finish(target: Path) -> None:
    """Adds the system's libraries that its modules load, compiles it, and lets every user id read it."""
    _libraries(target)
    compileall.compile_dir(
        target,
        quiet=2,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        stripdir=str(target),
        prependdir=INSIDE,
    )
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() or ".so" in path.name else 0o644)


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
