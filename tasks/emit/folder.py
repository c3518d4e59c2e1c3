"""Puts a finished shard folder in its place: written under a temporary name, then renamed; equal files stay."""

import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import Unavailable, UserError
from tasks.emit.manifest import CARD, MANIFEST, differences, read_manifest

_HOST = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname()) or "host"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OURS = frozenset({MANIFEST, CARD, "data"})


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target` to write into; when the block ends well it takes the target's place.

    A target that already holds the same files is left untouched. A folder that holds anything but shards of ours
    is refused, never replaced. A full disk is Unavailable: the items stay pending and the old folder stays.
    """
    refuse_foreign(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target)
    stage = beside(target, "tmp")
    shutil.rmtree(stage, ignore_errors=True)
    try:
        stage.mkdir()
        yield stage
        if not _same(stage, target):
            replace(stage, target)
    except OSError as error:
        raise Unavailable("disk", f"{target}: {error}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def check_label(name: str) -> None:
    """ValueError unless `name` is empty or the plain name of a folder: no path, nothing hidden, no odd characters."""
    if name and not _LABEL.fullmatch(name):
        raise ValueError(f"name = {name!r} is not the plain name of a folder (letters, digits, '.', '_', '-')")


def refuse_foreign(target: Path) -> None:
    """UserError when `target` exists and holds anything that an exporter did not write."""
    if target.exists() and not target.is_dir():
        raise UserError(f"'{target}' is a file.", todo="Name a folder for the shards.")
    if not target.is_dir() or not any(target.iterdir()):
        return
    foreign = sorted(child.name for child in target.iterdir() if child.name not in _OURS)
    if not foreign:
        try:
            manifest = read_manifest(target)
            known = {target / file.path for file in manifest.written}
        except UserError:
            foreign = ["no manifest of ours is there"]
        else:
            inside = (path for path in (target / "data").rglob("*") if path.is_file())
            foreign = sorted(str(path.relative_to(target)) for path in inside if path not in known)
    if foreign:
        raise UserError(
            f"'{target}' holds files that are no shards: {', '.join(foreign[:3])}.",
            "An export replaces its whole folder.",
            "Name an empty or new folder.",
        )


def _same(stage: Path, target: Path) -> bool:
    if not (target / MANIFEST).is_file():
        return False
    for name in (MANIFEST, CARD):
        if not (target / name).is_file() or (target / name).read_bytes() != (stage / name).read_bytes():
            return False
    names = {path.name for path in (target / "data").iterdir()}
    return names == {path.name for path in (stage / "data").iterdir()} and not differences(
        target, read_manifest(target)
    )


def replace(stage: Path, target: Path) -> None:
    """Puts `stage` in `target`'s place; a kill in between leaves the old one beside it, for `sweep` to put back."""
    old = beside(target, "old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    stage.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def beside(target: Path, what: str) -> Path:
    """A name beside `target` that is this process's own; it says which machine and process it belongs to."""
    return target.parent / f".gristmill-{target.name}.{what}-{_HOST}-{os.getpid()}"


def sweep(target: Path) -> None:
    """Removes what a killed process of this machine left beside `target`; an old folder without successor returns."""
    mine = re.compile(rf"\.gristmill-{re.escape(target.name)}\.(tmp|old)-{re.escape(_HOST)}-(\d+)")
    for path in sorted(target.parent.iterdir()) if target.parent.is_dir() else ():
        found = mine.fullmatch(path.name)
        if found is None or int(found[2]) == os.getpid() or Path(f"/proc/{found[2]}").exists():
            continue
        if found[1] == "old" and not target.exists():
            path.rename(target)
        else:
            shutil.rmtree(path, ignore_errors=True)
