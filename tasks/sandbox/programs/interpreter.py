"""The jail's file system: one interpreter, its standard library, the shared libraries they need, nothing else.

It is copied once per interpreter into a readable folder, so that a jail under another user id can read it even
where the interpreter itself lies in a closed home folder, and so that no site-packages, no /usr/local, no
checkout and no lake can be in it. Test suites and tools of the standard library are left out.
"""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from pathlib import Path

from schemas.errors import Unavailable
from schemas.ids import content_id
from schemas.trajectory import Base
from tasks.sandbox.inside import RUNNERS, runner_file

_LAYOUT = 3
_LEFT_OUT = frozenset(
    ("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3")
)
_HOME = "opt/python"


class Interpreter(Base, frozen=True):
    """A ready root folder. `version` names interpreter and copy; it belongs into every cache key of a verdict."""

    root: Path
    python: str
    runner: str
    version: str


def needed(binaries: Iterable[Path]) -> dict[str, Path]:
    """Soname → file of every shared library that the binaries load, as the dynamic loader itself lists them."""
    found: dict[str, Path] = {}
    listing = subprocess.run(
        ["ldd", *map(str, binaries)], capture_output=True, text=True, check=False, env={"PATH": os.defpath}
    ).stdout
    for line in listing.splitlines():
        words = line.split()
        if "=>" in words and len(words) >= 3 and words[2].startswith("/"):
            found[words[0]] = Path(words[2])
        elif words and words[0].startswith("/") and not words[0].endswith(":"):
            found[words[0]] = Path(words[0])
    return found


def _skip(folder: str, names: list[str]) -> set[str]:
    skipped = {name for name in names if name in _LEFT_OUT or name.startswith("config-")}
    return skipped | {
        name
        for name in names
        if not name.endswith((".py", ".so", "__pycache__")) and "." in name and Path(folder, name).is_file()
    }


def _copy(target: Path, binary: Path, stdlib: Path) -> None:
    home = target / _HOME
    library = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (home / "bin").mkdir(parents=True)
    shutil.copy2(binary, home / "bin" / "python3")
    shutil.copytree(stdlib, library, ignore=_skip, symlinks=False)
    modules = list((library / "lib-dynload").glob("*.so"))
    libraries = needed([binary, *modules])
    for extra in ("libgcc_s.so.1",):
        # glibc loads it at run time, when a thread is cancelled.
        for known in list(libraries.values()):
            if known.name.startswith("libc.so") and (known.parent / extra).exists():
                libraries.setdefault(extra, known.parent / extra)
    for name, source in libraries.items():
        place = target / name.lstrip("/") if name.startswith("/") else home / "lib" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place)
    compileall.compile_dir(
        library,
        quiet=2,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        stripdir=str(target),
        prependdir="/",
    )
    for name in RUNNERS:
        py_compile.compile(str(runner_file(name)), cfile=str(home / f"{name}.pyc"), dfile=f"{name}.py", doraise=True)
    for folder in ("dev", "tmp", "proc", "opt/env", "opt/bin"):
        (target / folder).mkdir()
    for device in ("null", "zero", "urandom", "random"):
        (target / "dev" / device).touch()
    (target / "work").symlink_to("tmp/work")
    # Programs start others by /bin/sh; it is there when a jail is given one.
    (target / "bin").symlink_to("opt/bin")
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" or ".so" in path.name else 0o644)


def _stamp(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def prepare(state: Path) -> Interpreter:
    """The root folder for the running interpreter's base, copied on first use (about a second, 60 MB)."""
    base = Path(sys.base_prefix).resolve()
    short = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    stdlib = Path(sysconfig.get_path("stdlib", vars={"base": str(base), "installed_base": str(base)}))
    named = [base / "bin" / short, base / "bin" / "python3", Path(getattr(sys, "_base_executable", sys.executable))]
    binary = next((path.resolve() for path in named if path.is_file()), None)
    if binary is None or not (stdlib / "os.py").is_file():
        raise Unavailable("sandbox", f"The interpreter's own files were not found below {base}.")
    cache = Path("/etc/ld.so.cache")
    key = content_id(
        "jail",
        _LAYOUT,
        str(binary),
        _stamp(binary),
        _stamp(stdlib / "os.py"),
        sys.version,
        _stamp(cache) if cache.exists() else [],
        [runner_file(name).read_text() for name in RUNNERS],
    )[:16]
    target = state / f"root-{key}"
    if not target.is_dir():
        building = state / f"building-{os.getpid()}-{time.monotonic_ns()}"
        try:
            _copy(building, binary, stdlib)
            os.utime(building)
            building.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise Unavailable("sandbox", f"The interpreter could not be copied to {state}: {error}") from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
    os.utime(target)
    implementation = f"{sys.implementation.name}-{sys.version.split()[0]}"
    return Interpreter(
        root=target, python=f"/{_HOME}/bin/python3", runner=f"/{_HOME}/runner.pyc", version=f"{implementation}-{key}"
    )
