"""System binaries for the jail: copied once by name, with the shared libraries they load, bound read-only at /opt/bin.

A task may name binaries (`sh`, `awk`, `node`). A name is looked up in the system's own folders only, and must be a
program that root installed for everybody: neither a user's private script nor a path of the task's choice gets in.
Copies carry no set-user-id bit.
"""

import hashlib
import os
import re
import shutil
import stat
import time
from pathlib import Path

from schemas.errors import Unavailable, UserError
from schemas.ids import content_id
from schemas.trajectory import Base
from tasks.sandbox.programs.interpreter import needed

INSIDE = "/opt/bin"
_SEARCHED = ("/usr/bin", "/bin", "/usr/local/bin")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_LAYOUT = 1


class Tools(Base, frozen=True):
    """A ready folder; `version` hashes every file in it and belongs into every cache key of a verdict."""

    root: Path
    version: str


def find(name: str) -> Path | None:
    """The file of a binary that a jail may be given; None when there is none.

    UserError for what is no plain name, or names a file that is not a program of the system.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"'{name}' is no name of a program.", "A name such as sh, awk or node is needed, not a path.")
    for folder in _SEARCHED:
        path = Path(folder, name)
        if path.is_file():
            real = path.resolve()
            found = real.stat()
            with real.open("rb") as source:
                magic = source.read(4)
            if magic != b"\x7fELF" or found.st_uid != 0 or not found.st_mode & 0o004 or found.st_mode & 0o022:
                raise UserError(
                    f"'{name}' ({real}) is not given to a jail.",
                    "It must be a binary that belongs to root, is readable by everybody and writable by root only.",
                )
            return real
    return None


def prepare(state: Path, names: tuple[str, ...]) -> Tools:
    """The folder with these binaries, copied on first use. Unavailable `no_interpreter` when one is not installed."""
    found = {name: find(name) for name in sorted(set(names))}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise Unavailable(
            "no_interpreter",
            f"not installed on this machine: {', '.join(missing)} (looked in {', '.join(_SEARCHED)}). Nothing was "
            "judged; install it and run again.",
        )
    binaries = {name: path for name, path in found.items() if path is not None}
    cache = Path("/etc/ld.so.cache")
    stamps = [[name, str(path), *_stamp(path)] for name, path in binaries.items()]
    key = content_id("tools", _LAYOUT, stamps, _stamp(cache) if cache.exists() else [])[:16]
    target = state / f"tools-{key}"
    if not target.is_dir():
        building = state / f"building-{os.getpid()}-{time.monotonic_ns()}"
        try:
            _copy(binaries, building)
            building.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise Unavailable("sandbox", f"Programs could not be copied to {state}: {error}") from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
    os.utime(target)
    return Tools(root=target, version=f"tools-{(target / '.version').read_text()}")


def _stamp(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _copy(binaries: dict[str, Path], target: Path) -> None:
    libraries = target / ".libs"
    libraries.mkdir(parents=True)
    copied: dict[Path, Path] = {}
    for name, path in binaries.items():
        if path in copied:
            # Several names of one program, such as sh and dash.
            os.link(copied[path], target / name)
            continue
        copied[path] = target / name
        shutil.copyfile(path, target / name)
    for name, source in needed(binaries.values()).items():
        # The loader itself lies at its absolute path in the root.
        if not name.startswith("/"):
            shutil.copyfile(source, libraries / name)
    hashed = hashlib.sha256()
    for path in sorted(each for each in target.rglob("*") if each.is_file()):
        path.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        hashed.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    version = target / ".version"
    version.write_text(hashed.hexdigest()[:16])
    for folder in (target, libraries):
        folder.chmod(0o755)
    version.chmod(0o644)
