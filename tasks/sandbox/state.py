"""Where the sandbox keeps what outlives a process: copied interpreters and leases.

The folder must be reachable by the user id that a jail runs under, so for root it does not lie in root's closed
home. It is used only when it belongs to us and nobody else can write to it.
"""

import os
import stat
import tempfile
from pathlib import Path

from schemas.errors import UserError

OVERRIDE = "GRISTMILL_SANDBOX_DIR"


def _trusted(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def reachable(path: Path) -> bool:
    """Whether any user may pass through every folder above `path`."""
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def state_dir() -> Path:
    """The folder, made when missing. UserError where none can be used."""
    uid = os.geteuid()
    given = os.environ.get(OVERRIDE)
    shared = [Path("/var/tmp") / f"gristmill-{uid}", Path(tempfile.gettempdir()) / f"gristmill-{uid}"]  # noqa: S108
    if given:
        candidates = [Path(given)]
    elif uid == 0:
        candidates = shared
    else:
        home = os.environ.get("XDG_CACHE_HOME") or (Path("~/.cache").expanduser() if os.environ.get("HOME") else "")
        candidates = [Path(home) / "gristmill", *shared] if home else shared
    for path in candidates:
        try:
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
            if _trusted(path) and os.access(path, os.W_OK) and (uid != 0 or reachable(path)):
                return path.resolve()
        except OSError:
            continue
    raise UserError(
        f"No folder for the sandbox's files: {', '.join(map(str, candidates))}.",
        "It must belong to you, be writable by nobody else and, for root, be reachable by other users.",
        f"Set {OVERRIDE} to such a folder.",
    )
