"""Puts a finished shard folder in its place: written under a temporary name, then renamed; equal files stay."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import Unavailable, UserError
from tasks.emit.manifest import CARD, MANIFEST, differences, read_manifest

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
    stage = target.parent / f".{target.name}.tmp-{os.getpid()}"
    shutil.rmtree(stage, ignore_errors=True)
    try:
        stage.mkdir()
        yield stage
        if not _same(stage, target):
            _replace(stage, target)
    except OSError as error:
        raise Unavailable("disk", f"{target}: {error}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def refuse_foreign(target: Path) -> None:
    """UserError when `target` exists and holds anything that an exporter did not write."""
    if target.exists() and not target.is_dir():
        raise UserError(f"'{target}' is a file.", todo="Name a folder for the shards.")
    foreign = sorted(child.name for child in target.iterdir() if child.name not in _OURS) if target.is_dir() else []
    if foreign or (target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file()):
        raise UserError(
            f"'{target}' holds files that are no shards: {', '.join(foreign[:3]) or 'no manifest is there'}.",
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


def _replace(stage: Path, target: Path) -> None:
    old = target.parent / f".{target.name}.old-{os.getpid()}"
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    stage.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def sweep(target: Path) -> None:
    """Removes what a killed process left beside `target`: temporary folders whose process is gone."""
    for path in target.parent.glob(f".{target.name}.*-*"):
        owner = path.name.rpartition("-")[2]
        if owner.isdigit() and int(owner) != os.getpid() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(path, ignore_errors=True)
