"""A new lake's Prefect database, copied from one that was migrated once for this version of Prefect.

Prefect's server migrates an empty database at its first start: 6.5 s of CPU time, in every new lake. A copy takes
milliseconds. The original holds the schema only: no server ever ran on it.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_NAME = "prefect.db"
_ADDRESSES = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
# A migration took 19 s on two busy cores.
_PATIENCE_S = 240


def provide(home: Path) -> None:
    """Puts a migrated database into `home` if it has none; where that fails, the server migrates one as it always did.

    The caller sees to it that nobody else does the same with this home meanwhile.
    """
    database = home / _NAME
    if database.exists() or any(os.environ.get(name) for name in _ADDRESSES):
        return
    try:
        original = _original()
        with tempfile.TemporaryDirectory(dir=home) as folder:
            copy = shutil.copyfile(original, Path(folder) / _NAME)
            copy.replace(database)
    except (OSError, subprocess.SubprocessError):
        return


def _original() -> Path:
    """The migrated database of the installed version of Prefect; made by its own command when it is not there."""
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "gristmill"
    original = root / f"prefect-{importlib.metadata.version('prefect')}.db"
    if original.exists():
        return original
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        subprocess.run(
            [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"],
            env={**os.environ, "PREFECT_HOME": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=True,
        )
        made = Path(folder) / _NAME
        if Path(f"{made}-wal").exists():
            raise OSError(f"{made} was left in the middle of a write")
        made.replace(original)
    return original
